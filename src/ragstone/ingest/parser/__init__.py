"""Parse files in separate processes that can be killed."""
