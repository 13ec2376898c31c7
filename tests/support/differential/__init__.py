"""The same requests to a real API server and to ours: how they are made, sent and compared."""
