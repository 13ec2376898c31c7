"""Composition roots: the only code that knows which parts are put together."""
