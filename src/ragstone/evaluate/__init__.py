"""How good the answers are, on whose questions, and whether a change made them better."""
