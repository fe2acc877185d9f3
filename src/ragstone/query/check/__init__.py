"""Check which statements of an answer the evidence supports."""
