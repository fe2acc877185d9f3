"""Embedders beside the shipped one: model servers, and two libraries for models of one's own."""
