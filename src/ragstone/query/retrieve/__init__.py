"""From a question to candidate hits."""
