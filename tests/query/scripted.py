"""A provider whose replies are written down beforehand, over the real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ragstone.errors import ProviderError
from ragstone.types import Message, Prompt


class ScriptedProvider:
    """Says `answer`; `complete` gives the reply whose key stands in the prompt, or fails."""

    name = "scripted"
    model = "script"

    def __init__(self, replies: Mapping[str, str], *, answer: str = "Yes [Source 1].") -> None:
        self.replies = replies
        self.answer = answer
        self.asked: list[str] = []
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        self.prompts.append(prompt)
        yield self.answer

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        self.asked.append(messages[-1].content)
        for key, reply in self.replies.items():
            if key in messages[-1].content:
                return reply
        raise ProviderError("The script has no reply to this.")


class SilentProvider:
    """Writes answers, but has no model for inner calls."""

    name = "silent"
    model = "none"

    def __init__(self, answer: str = "Yes [Source 1].") -> None:
        self.answer = answer

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        yield self.answer
