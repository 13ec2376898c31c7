"""The shell around the plan."""
