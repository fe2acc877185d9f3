"""Answer questions: question in, answer out."""
