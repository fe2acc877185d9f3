"""Serve the engine over HTTP: routes validate, call the engine and shape the reply."""
