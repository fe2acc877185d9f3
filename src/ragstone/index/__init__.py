"""Where things are kept: the catalog is the truth, the index is derived from it."""
