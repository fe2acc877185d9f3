"""Chat with a model: `stream` an answer, or `complete` a short request.

A wire (one file per service) turns a request into pieces of text. Retries, time-outs, prices and
JSON are the same for all services and are handled here.
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

_RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limit retries and waiting. The pause doubles with every try, plus or minus a half."""

    max_retries: int = 3
    timeout_s: float = 30.0
    first_pause_s: float = 0.5
    max_pause_s: float = 20.0

    def pause_s(self, attempt: int) -> float:
        pause = min(self.first_pause_s * 2**attempt, self.max_pause_s)
        spread: float = random.uniform(0.5, 1.5)  # noqa: S311  spreads retries, guards nothing
        return float(pause) * spread


@dataclass(frozen=True, slots=True)
class Failure:
    """Describe why one try failed."""

    message: str
    hint: str = ""
    retryable: bool = True
    retry_after_s: float | None = None


class CutStreamError(Exception):
    """Signal that the connection ended before the answer did."""


class EmptyAnswerError(Exception):
    """Signal an answer without text."""


def explain_status(name: str, status: int, retry_after: str | None, detail: str) -> Failure:
    """Describe an HTTP error status: whether to try again, and when."""
    hints = {
        401: "Check LLM_API_KEY.",
        403: "Check LLM_API_KEY and its permissions.",
        404: "Check LLM_MODEL and LLM_BASE_URL.",
        429: "Wait a little, or ask the provider for a higher limit.",
    }
    try:
        wait = float(retry_after) if retry_after else None
    except ValueError:
        wait = None
    return Failure(
        f"{name} answered with status {status}: {detail[:200]}",
        hints.get(status, ""),
        status in _RETRYABLE_STATUS,
        wait,
    )


def explain_failure(name: str, error: Exception) -> Failure:
    """Describe any other failure: no connection, a cut stream, a reply that is not JSON."""
    if isinstance(error, CutStreamError):
        return Failure(f"{name} closed the connection in the middle of its answer.")
    if isinstance(error, EmptyAnswerError):
        return Failure(f"{name} sent an empty answer.")
    if isinstance(error, ValueError):
        return Failure(f"{name} sent a reply that cannot be read ({type(error).__name__}).")
    return Failure(
        f"{name} cannot be reached ({type(error).__name__}).", "Check LLM_BASE_URL and the network."
    )


async def stream_with_retries(
    name: str,
    attempt_once: Callable[[], Pieces],
    explain: Callable[[Exception], Failure | None],
    policy: RetryPolicy,
) -> AsyncIterator[str | Usage]:
    """Yield the pieces of the first try that gives an answer; ProviderError if none does."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + policy.timeout_s
    for attempt in range(policy.max_retries + 1):
        pieces = attempt_once()
        has_text = False
        try:
            while True:
                left = policy.timeout_s if has_text else max(deadline - clock(), 0.0)
                async with asyncio.timeout(left):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                has_text = has_text or (isinstance(piece, str) and bool(piece.strip()))
                yield piece
            if has_text:
                return
            failure = explain_failure(name, EmptyAnswerError())
        except TimeoutError as error:
            raise ProviderError(
                f"{name} sent nothing for {policy.timeout_s:g} seconds.",
                hint="Raise LLM_TIMEOUT_SECONDS, or choose a faster model.",
            ) from error
        except Exception as error:  # whatever a library raises becomes a ProviderError
            failure = explain(error) or explain_failure(name, error)
            if has_text:
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
    """Hold one call, independent of the service."""

    messages: tuple[Message, ...]
    model: str
    temperature: float
    max_tokens: int
    schema: Mapping[str, Any] | None = None


def format_messages(request: Request) -> list[dict[str, str]]:
    """Return the messages in the form that most services use."""
    return [{"role": message.role, "content": message.content} for message in request.messages]


class Wire(Protocol):
    """Speak the protocol of one service: stream pieces of text, and at the end the usage."""

    @property
    def name(self) -> str: ...
    def stream_pieces(self, request: Request) -> Pieces: ...
    def explain(self, error: Exception) -> Failure | None:
        """Describe an error of this service; None for one that any connection may have."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ChatProvider:
    """Use a large model for answers and a small fast one for other steps, over one wire."""

    wire: Wire
    model: str
    fast_model: str
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    max_tokens: int = 1024

    @property
    def name(self) -> str:
        return self.wire.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | Usage]:
        model = prompt.model or self.model
        request = Request(prompt.messages, model, prompt.temperature, self.max_tokens)
        async for piece in self._stream(request):
            yield piece

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        """Return the small model's whole reply; with a schema, one JSON value and nothing else."""
        request = Request(tuple(messages), self.fast_model, 0.0, self.max_tokens, schema)
        text = "".join([piece async for piece in self._stream(request) if isinstance(piece, str)])
        return text if schema is None else extract_json(text)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self.wire.aclose()

    async def _stream(self, request: Request) -> AsyncIterator[str | Usage]:
        pieces = stream_with_retries(
            self.name, lambda: self.wire.stream_pieces(request), self.wire.explain, self.policy
        )
        async for piece in pieces:
            yield add_price(piece, request.model) if isinstance(piece, Usage) else piece


def extract_json(text: str) -> str:
    """Return the first JSON value in a reply, which may have text or a code fence around it."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[\[{]", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        return json.dumps(value, ensure_ascii=False)
    raise UnusableReplyError("The reply of the model holds no JSON.", hint="Try a larger model.")


@cache
def _load_prices() -> dict[str, tuple[float, float]]:
    text = resources.files(__package__).joinpath("prices.toml").read_text("utf-8")
    return {name: (row["input"], row["output"]) for name, row in tomllib.loads(text)["usd"].items()}


def add_price(usage: Usage, model: str) -> Usage:
    """Add the price of a call, by the longest name in the table that the model starts with."""
    known = max((name for name in _load_prices() if model.startswith(name)), key=len, default=None)
    if known is None:
        return usage
    per_input, per_output = _load_prices()[known]
    cost = (usage.input_tokens * per_input + usage.output_tokens * per_output) / 1e6
    return replace(usage, cost_usd=cost)


def build_provider(wire: Wire, settings: Settings, *, model: str, fast_model: str) -> ChatProvider:
    """Build a provider; `model` and `fast_model` are used where the settings name none."""
    chosen = settings.provider
    main = chosen.model or model
    return ChatProvider(
        wire,
        main,
        # A server with a chosen model may not have the default small one.
        chosen.fast_model or (main if chosen.model else fast_model),
        RetryPolicy(max_retries=chosen.max_retries, timeout_s=chosen.timeout_s),
        chosen.max_tokens,
    )
