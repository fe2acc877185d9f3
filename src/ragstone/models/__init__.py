"""The local models: what is shipped, what can be pulled, and how they are run."""
