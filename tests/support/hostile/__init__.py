"""Requests that nobody should send, by chance: the same seed and number make the same request."""
