"""Call model services and libraries: chat and embeddings."""
