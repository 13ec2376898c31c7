"""Objects as `kubectl get` shows them: tables, and metadata alone."""
