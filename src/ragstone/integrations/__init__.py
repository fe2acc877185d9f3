"""Offer the engine to other frameworks; each integration needs its own extra."""
