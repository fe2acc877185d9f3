"""A chat model behind the two verbs that the pipeline knows: `stream` and `complete`.

The wire (one file per service) turns messages into pieces; retries, time-outs, prices and JSON are
the same for all of them and live here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Protocol

from ragstone.errors import UnusableReplyError
from ragstone.providers.calls import Failure, Pieces, Policy, answered
from ragstone.settings import Settings
from ragstone.types import Message, Prompt, Usage


@dataclass(frozen=True, slots=True)
class Request:
    """One call, in no service's own words."""

    messages: tuple[Message, ...]
    model: str
    temperature: float
    max_tokens: int
    schema: Mapping[str, Any] | None = None


def plain_messages(request: Request) -> list[dict[str, str]]:
    """The messages as most services take them."""
    return [{"role": message.role, "content": message.content} for message in request.messages]


class Wire(Protocol):
    """One service's protocol: a request to pieces of text, and at the end the tokens used."""

    @property
    def name(self) -> str: ...
    def pieces(self, request: Request) -> Pieces: ...
    def explain(self, error: Exception) -> Failure | None:
        """A failure of this service's own kind; None for one that any connection may have."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ChatProvider:
    """A large model for answers and a small fast one for the inner calls, over one wire."""

    wire: Wire
    model: str
    fast_model: str
    policy: Policy = field(default_factory=Policy)
    max_tokens: int = 1024

    @property
    def name(self) -> str:
        return self.wire.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | Usage]:
        model = prompt.model or self.model
        request = Request(prompt.messages, model, prompt.temperature, self.max_tokens)
        async for piece in self._answered(request):
            yield piece

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        """The small model's whole reply; with a schema, one JSON value and nothing around it."""
        request = Request(tuple(messages), self.fast_model, 0.0, self.max_tokens, schema)
        text = "".join([piece async for piece in self._answered(request) if isinstance(piece, str)])
        return text if schema is None else json_in(text)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self.wire.aclose()

    async def _answered(self, request: Request) -> AsyncIterator[str | Usage]:
        pieces = answered(
            self.name, lambda: self.wire.pieces(request), self.wire.explain, self.policy
        )
        async for piece in pieces:
            yield priced(piece, request.model) if isinstance(piece, Usage) else piece


def json_in(text: str) -> str:
    """The JSON value in a reply that may have talk or a code fence around it."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[\[{]", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        return json.dumps(value, ensure_ascii=False)
    raise UnusableReplyError(
        "The model was asked for JSON and gave none.", hint="Try a larger model."
    )


@cache
def _prices() -> dict[str, tuple[float, float]]:
    text = resources.files(__package__).joinpath("prices.toml").read_text("utf-8")
    return {name: (row["input"], row["output"]) for name, row in tomllib.loads(text)["usd"].items()}


def priced(usage: Usage, model: str) -> Usage:
    """What a call cost, by the longest name in the price table that the model's begins with."""
    known = max((name for name in _prices() if model.startswith(name)), key=len, default=None)
    if known is None:
        return usage
    per_input, per_output = _prices()[known]
    cost = (usage.input_tokens * per_input + usage.output_tokens * per_output) / 1e6
    return replace(usage, cost_usd=cost)


def provider(wire: Wire, settings: Settings, *, model: str, fast_model: str) -> ChatProvider:
    """A provider with the settings' own choices before these defaults."""
    chosen = settings.provider
    main = chosen.model or model
    return ChatProvider(
        wire,
        main,
        # With a model of one's own choice the default small one may not be there.
        chosen.fast_model or (main if chosen.model else fast_model),
        Policy(max_retries=chosen.max_retries, timeout_s=chosen.timeout_s),
        chosen.max_tokens,
    )
