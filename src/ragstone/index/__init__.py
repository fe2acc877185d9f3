"""Search the chunks of the catalog by keywords and by vectors."""
