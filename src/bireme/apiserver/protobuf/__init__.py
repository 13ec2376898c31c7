"""Bodies in Kubernetes' Protobuf: what Go's clients send of the kinds that Kubernetes brings."""
