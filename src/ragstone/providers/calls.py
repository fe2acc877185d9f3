"""One policy for every call to a model: retries, back-off, time-out, cancellation.

A call is tried again only while nothing of its answer has been passed on. The time-out covers the
wait for the first word, tries and pauses included, and then each pause between two words. Closing
the generator closes the connection, so a client that goes away stops the model too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from ragstone.errors import ProviderError
from ragstone.types import Usage

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
