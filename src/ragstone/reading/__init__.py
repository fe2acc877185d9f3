"""Read passages: choose the units that answer a question."""
