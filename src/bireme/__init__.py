"""Distributed batch jobs described by one Kubernetes manifest."""

__version__ = "0.1.0"
