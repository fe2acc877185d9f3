"""Stand-ins for tests, at the seams of the pipeline: public, so that plug-ins can use them too.

engine = Engine(settings, embedder=HashEmbedder(), provider=ScriptedProvider(["Yes [Source 1]"]))
"""

from ragstone.testing.embedder import HashEmbedder
from ragstone.testing.provider import ScriptedProvider

__all__ = ["HashEmbedder", "ScriptedProvider"]
