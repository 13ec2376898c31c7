"""What a Kubernetes API server keeps, and how it answers: so far without HTTP and without a disk."""
