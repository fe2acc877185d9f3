"""Run the local models: the shipped embedder, the reranker, and models that can be pulled."""
