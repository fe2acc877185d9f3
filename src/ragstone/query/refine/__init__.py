"""Reduce candidate hits to the few that are worth reading."""
