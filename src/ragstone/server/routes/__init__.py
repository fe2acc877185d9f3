"""Define the endpoints, one file per subject."""
