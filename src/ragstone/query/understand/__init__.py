"""From what was typed to a question that can be searched."""
