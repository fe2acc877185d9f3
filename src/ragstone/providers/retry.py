"""Try a call again, explain why it failed, and remember whether the provider answers.

A failure is a sentence, a hint, and a word for the reason. The service's own words are kept apart
(`detail`): they may quote a question or name an account, so logs and replies leave them out.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ragstone.calls import StopReason, Usage
from ragstone.errors import ProviderError, RagstoneError

FailureReason: TypeAlias = Literal[
    "wrong_key", "unknown_model", "quota", "refused_request", "context_length", "blocked", "length",
    "unreachable", "timeout", "cut", "empty", "unreadable", "fault",
]  # fmt: skip
# These say something about one question and nothing about the provider.
ABOUT_ONE_REQUEST: frozenset[str] = frozenset(
    {"refused_request", "context_length", "blocked", "length", "empty", "unusable"}
)

_RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# OpenAI, vLLM and LM Studio; llama.cpp; Anthropic; Google.
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum context|too many tokens|n_ctx|"
    r"prompt is too long|input token count",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _](?:filter|policy|management)|responsibleai|safety", re.IGNORECASE
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance|billing", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limit retries and waiting. The pause doubles with every try, plus or minus a half."""

    max_retries: int = 3
    timeout_s: float = 30.0
    first_pause_s: float = 0.5
    max_pause_s: float = 20.0
    first_word_s: float | None = None
    """The time-out of the first word, where it is not `timeout_s`."""

    def pause_s(self, attempt: int) -> float:
        pause = min(self.first_pause_s * 2**attempt, self.max_pause_s)
        spread: float = random.uniform(0.5, 1.5)  # noqa: S311  spreads retries, guards nothing
        return float(pause) * spread


@dataclass(frozen=True, slots=True)
class Failure:
    """Describe why one try failed. `detail` are the words of the service."""

    message: str
    hint: str = ""
    retryable: bool = True
    retry_after_s: float | None = None
    reason: FailureReason = "fault"
    detail: str = ""

    def as_error(self) -> ProviderError:
        return ProviderError(
            self.message, hint=self.hint, reason=self.reason, detail=self.detail[:300]
        )


class StatusError(Exception):
    """Signal an HTTP error status of a service."""

    def __init__(self, status: int, retry_after: str | None, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.retry_after, self.detail = status, retry_after, detail


class MissingKeyError(Exception):
    """Signal that a service was not asked, because it needs a key and none is set."""


class CutStreamError(Exception):
    """Signal that the connection ended before the answer did."""


class EmptyAnswerError(Exception):
    """Signal an answer without text."""


class BlockedError(Exception):
    """Signal that the service refused a prompt or stopped a reply for its content."""


@dataclass(frozen=True, slots=True)
class Service:
    """Name a service in messages: its title, and the variables of its settings."""

    title: str
    prefix: str = "LLM"
    start_hint: str = ""
    """How to start it, for a server on this machine."""

    def name_variable(self, field: str) -> str:
        own = f"{self.prefix}_{field}"
        is_alone = self.prefix == "LLM" or self.prefix.startswith("RAGSTONE_")
        return own if is_alone else f"{own} or LLM_{field}"


@dataclass(frozen=True, slots=True)
class Thought:
    """Stand for a piece of reasoning: it is not shown, but the model is at work."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Say why a reply ended."""

    reason: StopReason


Pieces: TypeAlias = AsyncGenerator[str | Usage | Thought | Stop, None]


def is_about_length(status: int, detail: str) -> bool:
    """Return True when a refusal says that the prompt is too long.

    A refused key, a time-out and a limit per minute ("too many tokens") are about something else.
    """
    return status not in (401, 403, 408, 429) and bool(_TOO_LONG.search(detail))


def explain_status(
    service: Service,
    status: int,
    retry_after: str | None,
    detail: str,
    *,
    model: str = "",
    has_key: bool = True,
) -> Failure:
    """Describe an HTTP error status: whether to try again, and when."""
    if is_about_length(status, detail):
        failure = _explain_length(service)
    elif status in (401, 403):
        failure = _explain_key(service, status, has_key=has_key)
    elif status == 404:
        failure = _explain_missing(service, model)
    elif status == 429:
        failure = _explain_limit(service, detail)
    elif status in (400, 413, 422):
        failure = _explain_refusal(service, detail)
    else:
        hint = "Try again later." if status >= 500 else _check(service, "BASE_URL")
        failure = Failure(f"{service.title} has a fault.", hint, status in _RETRYABLE_STATUS)
    return replace(
        failure,
        message=f"{failure.message.removesuffix('.')} (status {status}).",
        retry_after_s=_parse_seconds(retry_after),
        detail=detail,
    )


def _check(service: Service, *fields: str) -> str:
    return f"Check {' and '.join(service.name_variable(one) for one in fields)}."


def _explain_key(service: Service, status: int, *, has_key: bool) -> Failure:
    if not has_key:
        return explain_missing_key(service)
    also = " and its permissions" if status == 403 else ""
    message = f"{service.title} refused the API key."
    hint = f"Check {service.name_variable('API_KEY')}{also}."
    return Failure(message, hint, retryable=False, reason="wrong_key")


def explain_missing_key(service: Service) -> Failure:
    """Describe a service that needs a key where none is set."""
    message, hint = f"{service.title} needs an API key.", f"Set {service.name_variable('API_KEY')}."
    return Failure(message, hint, retryable=False, reason="wrong_key")


def _explain_missing(service: Service, model: str) -> Failure:
    what = f"the model '{model}'" if model else "the model"
    hint = _check(service, "MODEL", "BASE_URL")
    if service.prefix == "OLLAMA" and model:
        hint = f"Download it with: ollama pull {model}"
    message = f"{service.title} does not have {what}."
    return Failure(message, hint, retryable=False, reason="unknown_model")


def _explain_limit(service: Service, detail: str) -> Failure:
    if _NO_CREDIT.search(detail):
        message = f"The account at {service.title} has no credit left."
        return Failure(message, "Check its plan and billing.", retryable=False, reason="quota")
    return Failure(
        f"{service.title} accepts no more requests for now.",
        "Wait a little, or ask the provider for a higher limit.",
        reason="quota",
    )


def _explain_length(service: Service) -> Failure:
    return Failure(
        f"The prompt is too long for the model of {service.title}.",
        "Lower RAG_MAX_CONTEXT_TOKENS, or give the model a larger context window.",
        retryable=False,
        reason="context_length",
    )


def _explain_refusal(service: Service, detail: str) -> Failure:
    if _FILTERED.search(detail):
        return explain_failure(service, BlockedError(detail))
    return Failure(
        f"{service.title} refused the request.",
        f"{_check(service, 'MODEL')} {service.name_variable('CAPABILITIES').partition(' ')[0]} "
        "can leave a field out.",
        retryable=False,
        reason="refused_request",
    )


def _parse_seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def explain_failure(service: Service, error: Exception) -> Failure:
    """Describe any other failure: no connection, a cut stream, a reply that is not JSON."""
    name = service.title
    if isinstance(error, BlockedError):
        return Failure(
            f"{name} refused the content of the prompt or of its own reply.",
            "Ask in other words, or choose another model.",
            retryable=False,
            reason="blocked",
            detail=str(error),
        )
    if isinstance(error, CutStreamError):
        return Failure(
            f"{name} closed the connection in the middle of its answer.",
            "Try again; look into the log of the server.",
            reason="cut",
        )
    if isinstance(error, EmptyAnswerError):
        return Failure(f"{name} sent an empty answer.", "Try another model.", reason="empty")
    if isinstance(error, ValueError):
        return Failure(
            f"{name} sent a reply that cannot be read ({type(error).__name__}).",
            f"Check {service.name_variable('BASE_URL')}: another kind of server may be there.",
            reason="unreadable",
        )
    hint = f"Check {service.name_variable('BASE_URL')} and the network."
    return Failure(
        f"{name} cannot be reached ({type(error).__name__}).",
        f"{service.start_hint} {hint}".strip(),
        reason="unreachable",
    )


async def stream_with_retries(
    service: Service,
    attempt_once: Callable[[], Pieces],
    explain: Callable[[Exception], Failure | None],
    policy: RetryPolicy,
) -> AsyncIterator[str | Usage | Stop]:
    """Yield the pieces of the first try that gives an answer; ProviderError if none does."""
    clock = asyncio.get_running_loop().time
    first_word_s = policy.first_word_s or policy.timeout_s
    deadline = clock() + first_word_s
    # More time to think is not more time to wait for another try.
    last_try = clock() + policy.timeout_s
    for attempt in range(policy.max_retries + 1):
        pieces = attempt_once()
        has_begun = has_text = was_cut_off = False
        try:
            while True:
                left = policy.timeout_s if has_begun else max(deadline - clock(), 0.0)
                async with asyncio.timeout(left):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                if isinstance(piece, Thought):
                    has_begun = True
                    continue
                has_text = has_text or (isinstance(piece, str) and bool(piece.strip()))
                has_begun = has_begun or has_text
                was_cut_off = was_cut_off or (isinstance(piece, Stop) and piece.reason == "length")
                yield piece
            if has_text:
                return
            failure = _explain_silence(service, was_cut_off=was_cut_off)
        except TimeoutError as error:
            waited = policy.timeout_s if has_begun else first_word_s
            raise ProviderError(
                f"{service.title} sent nothing for {waited:g} seconds.",
                hint="Raise LLM_TIMEOUT_SECONDS, or choose a faster model.",
                reason="timeout",
            ) from error
        except Exception as error:  # whatever a library raises becomes a ProviderError
            failure = explain(error) or explain_failure(service, error)
            if has_text:
                raise failure.as_error() from error
        finally:
            await pieces.aclose()
        pause = failure.retry_after_s
        pause = policy.pause_s(attempt) if pause is None else pause
        if not failure.retryable or attempt == policy.max_retries or clock() + pause >= last_try:
            raise failure.as_error()
        await asyncio.sleep(pause)


def _explain_silence(service: Service, *, was_cut_off: bool) -> Failure:
    if not was_cut_off:
        return explain_failure(service, EmptyAnswerError())
    return Failure(
        f"{service.title} used up all its tokens before it wrote a word.",
        f"Raise {service.name_variable('MAX_TOKENS')}, or set "
        f"{service.name_variable('REASONING')} to a lower value.",
        retryable=False,
        reason="length",
    )


HealthState: TypeAlias = Literal["unknown", "ok", "failing"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Say how the last call went. `detail`, the words of the service, is for the operator alone."""

    state: HealthState = "unknown"
    reason: str = ""
    message: str = ""
    hint: str = ""
    detail: str = ""
    checked_at: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what everybody may see."""
        return {
            "state": self.state,
            "reason": self.reason,
            "message": self.message,
            "hint": self.hint,
            "checked_at": self.checked_at,
        }


class ProviderHealth:
    """Hold the outcome of the last call. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._report = HealthReport()

    @property
    def report(self) -> HealthReport:
        with self._lock:
            return self._report

    def record_success(self) -> None:
        self._set(HealthReport("ok", checked_at=time.time()))

    def record_failure(self, error: Exception, *, is_probe: bool = False) -> None:
        """Record a failure, unless it is about one request and not about the provider.

        What is wrong with the request of a probe is wrong with every other.
        """
        reason = getattr(error, "reason", "fault")
        if reason in ABOUT_ONE_REQUEST and not is_probe:
            return
        message = getattr(error, "summary", f"The call failed ({type(error).__name__}).")
        hint = error.hint if isinstance(error, RagstoneError) else ""
        detail = str(getattr(error, "detail", ""))
        self._set(HealthReport("failing", reason, message, hint, detail, time.time()))

    def _set(self, report: HealthReport) -> None:
        with self._lock:
            self._report = report
