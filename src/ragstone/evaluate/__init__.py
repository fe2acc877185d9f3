"""Measure retrieval and answers on a dataset, compare two systems, and tune the settings."""
