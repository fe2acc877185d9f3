"""Store the truth: documents, history, sessions, keys, uploads."""
