"""A provider that says what it is told to, piece by piece, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ragstone.types import Prompt


class ScriptedProvider:
    """Streams the given pieces as the answer to every prompt; `prompts` holds what came in."""

    name = "scripted"
    model = "script"

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = tuple(pieces)
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        self.prompts.append(prompt)
        for piece in self.pieces:
            yield piece
