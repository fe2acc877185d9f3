"""The HTTP doors: thin; they validate, call the engine and shape the reply."""
