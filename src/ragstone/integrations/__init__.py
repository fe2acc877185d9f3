"""Ragstone's search inside other frameworks; each adapter needs its own extra."""
