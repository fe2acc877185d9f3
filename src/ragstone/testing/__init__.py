"""Provide fakes for tests. They are public, so that plug-ins can use them too.

engine = Engine(settings, embedder=HashEmbedder(), provider=ScriptedProvider(["Yes [Source 1]"]))
"""

from ragstone.testing.fakes import HashEmbedder, ScriptedProvider

__all__ = ["HashEmbedder", "ScriptedProvider"]
