"""The API server on the network: HTTP, TLS and WebSockets around a Backend."""
