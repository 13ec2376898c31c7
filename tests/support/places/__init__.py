"""Places where jobs run, each driven through its API alone: this machine, a control plane, a node."""
