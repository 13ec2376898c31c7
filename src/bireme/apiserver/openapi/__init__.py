"""The schemas of the kinds, as Kubernetes publishes them."""
