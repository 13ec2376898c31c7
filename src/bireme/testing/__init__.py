"""Shipped tools for tests: builders, and a model of a cluster."""
