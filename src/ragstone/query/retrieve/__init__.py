"""Find candidate hits for a question."""
