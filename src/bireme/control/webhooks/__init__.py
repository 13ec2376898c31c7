"""Admission webhooks: what the API server asks before it takes an object."""
