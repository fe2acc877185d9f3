"""A chat model behind the two verbs that the pipeline knows: `stream` and `complete`.

The wire (one file per service) turns messages into pieces; retries, time-outs, prices and JSON are
the same for all of them and live here.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Protocol, TypeAlias

from ragstone.errors import ProviderError, UnusableReplyError
from ragstone.settings import Settings
from ragstone.types import Message, Prompt, Usage

Pieces: TypeAlias = AsyncGenerator[str | Usage, None]

_STATUS_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how long. The first pause doubles with every try, give or take a half."""

    max_retries: int = 3
    timeout_s: float = 30.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 20.0

    def pause_s(self, attempt: int) -> float:
        pause = min(self.first_pause_s * 2**attempt, self.longest_pause_s)
        spread: float = random.uniform(0.5, 1.5)  # noqa: S311  spreads retries, guards nothing
        return float(pause) * spread


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one try, in our words."""

    message: str
    hint: str = ""
    retryable: bool = True
    retry_after_s: float | None = None


class CutStreamError(Exception):
    """The connection ended before the answer did."""


class EmptyAnswerError(Exception):
    """The answer ended before it began."""


def status_failure(name: str, status: int, retry_after: str | None, detail: str) -> Failure:
    """A failure from an HTTP status: which are worth another try, and when."""
    hints = {
        401: "Check LLM_API_KEY.",
        403: "Check LLM_API_KEY and what it may use.",
        404: "Check LLM_MODEL and LLM_BASE_URL.",
        429: "Wait a little, or ask the provider for more.",
    }
    try:
        wait = float(retry_after) if retry_after else None
    except ValueError:
        wait = None
    return Failure(
        f"{name} answered with status {status}: {detail[:200]}",
        hints.get(status, ""),
        status in _STATUS_RETRIED,
        wait,
    )


def plain_failure(name: str, error: Exception) -> Failure:
    """A failure that is no HTTP status: no connection, a cut stream, a reply that is no JSON."""
    if isinstance(error, CutStreamError):
        return Failure(f"{name} broke off in the middle of its answer.")
    if isinstance(error, EmptyAnswerError):
        return Failure(f"{name} gave an empty answer.")
    if isinstance(error, ValueError):
        return Failure(f"{name} sent a reply that cannot be read ({type(error).__name__}).")
    return Failure(
        f"{name} cannot be reached ({type(error).__name__}).", "Check LLM_BASE_URL and the network."
    )


async def answered(
    name: str,
    attempt_once: Callable[[], Pieces],
    explain: Callable[[Exception], Failure | None],
    policy: Policy,
) -> AsyncIterator[str | Usage]:
    """The pieces of an answer, from the first try that gives one. Failing is a ProviderError."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + policy.timeout_s
    for attempt in range(policy.max_retries + 1):
        pieces = attempt_once()
        begun = False
        try:
            while True:
                left = policy.timeout_s if begun else max(deadline - clock(), 0.0)
                async with asyncio.timeout(left):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                begun = begun or (isinstance(piece, str) and bool(piece.strip()))
                yield piece
            if begun:
                return
            failure = plain_failure(name, EmptyAnswerError())
        except TimeoutError as error:
            raise ProviderError(
                f"{name} was silent for {policy.timeout_s:g} seconds.",
                hint="Raise LLM_TIMEOUT_SECONDS, or choose a faster model.",
            ) from error
        except Exception as error:  # whatever a library raises is told as one sentence
            failure = explain(error) or plain_failure(name, error)
            if begun:
                raise ProviderError(failure.message, hint=failure.hint) from error
        finally:
            await pieces.aclose()
        pause = failure.retry_after_s
        pause = policy.pause_s(attempt) if pause is None else pause
        if not failure.retryable or attempt == policy.max_retries or clock() + pause >= deadline:
            raise ProviderError(failure.message, hint=failure.hint)
        await asyncio.sleep(pause)


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
