"""Objects by their schemas: the unknown is pruned, the absent filled in, the rest checked."""
