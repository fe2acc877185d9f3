"""From evidence to an answer with resolved citations."""
