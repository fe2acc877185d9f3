"""Read texts: split them, find what a question asks for, choose the sentences that answer."""
