"""The page in a real browser, on a running server."""
