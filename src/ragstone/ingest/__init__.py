"""Document in, index out."""
