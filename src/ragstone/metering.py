"""Count the tokens of internal calls: each belongs to the stage that asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstone.protocols import Chat
from ragstone.trace import Span
from ragstone.types import Message


@dataclass(frozen=True, slots=True)
class MeteredChat:
    """Ask a model on behalf of a stage. A provider with `counts_usage` reports every call."""

    chat: Chat
    span: Span

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        more: dict[str, Any] = {}
        if getattr(self.chat, "counts_usage", False):
            more["count"] = self.span.count_usage
        return await self.chat.complete(messages, schema=schema, **more)
