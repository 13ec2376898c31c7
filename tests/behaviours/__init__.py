"""What users rely on, the same in every place. A package, so that places are closed at its end."""
