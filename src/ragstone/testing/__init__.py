"""Replace the embedder and the language model in tests. Fast and deterministic.

They are public, so that plug-ins can use them too:
engine = Engine(settings, embedder=HashEmbedder(), provider=ScriptedProvider(["Yes [Source 1]"]))
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Sequence

import numpy as np

from ragstone.protocols import Vectors
from ragstone.types import Prompt

__all__ = ["HashEmbedder", "ScriptedProvider"]

_TOKEN = re.compile(r"\w+|[^\w\s]")


class HashEmbedder:
    """Embed without a model: texts that share words are similar.

    Each word adds to one of the `dimension` places, chosen by its checksum.
    """

    name = "hash"
    max_tokens = 256

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in _TOKEN.findall(text.casefold())[: self.max_tokens]:
                vectors[row, zlib.crc32(word.encode()) % self.dimension] += 1
            if not vectors[row].any():
                vectors[row, 0] = 1  # a text without words needs a direction too
        lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, dtype=np.float32)

    def token_starts(self, text: str) -> Sequence[int]:
        return [match.start() for match in _TOKEN.finditer(text)]


class ScriptedProvider:
    """Stream the given pieces as the answer to every prompt; record the prompts."""

    name = "scripted"
    model = "script"

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = tuple(pieces)
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        self.prompts.append(prompt)
        for piece in self.pieces:
            yield piece
