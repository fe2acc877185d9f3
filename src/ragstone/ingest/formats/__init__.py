"""Load documents: bytes to text with structure, one file per family of formats."""
