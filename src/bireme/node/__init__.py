"""The embedded node: a pod is a set of local processes."""
