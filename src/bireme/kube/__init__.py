"""The only Kubernetes client: configuration, transport, typed calls, watch caches, leader election."""
