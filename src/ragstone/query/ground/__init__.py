"""Write an answer from evidence, with citations that resolve to spans."""
