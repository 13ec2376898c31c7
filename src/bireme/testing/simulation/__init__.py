"""A whole cluster in one process under virtual time: the real controller, and everything that can break."""
