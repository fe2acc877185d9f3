"""The catalog's schema, one step per version; run at start when a catalog is behind."""
