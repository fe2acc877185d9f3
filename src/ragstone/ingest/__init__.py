"""Read documents into a collection: files in, catalog and index out."""
