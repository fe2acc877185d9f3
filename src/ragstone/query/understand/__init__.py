"""Turn what was typed into a question that can be searched."""
