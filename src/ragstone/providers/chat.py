"""Chat with a model: `stream` an answer, or `complete` a short request.

A wire (one file per service) turns a request into pieces. Retries, time-outs, thoughts, prices and
JSON are the same for all services and are handled here. What a model accepts is looked up in the
table of models; a field that a server refuses is left out from then on.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from ragstone.calls import StopReason, Usage
from ragstone.errors import ProviderError, UnusableReplyError
from ragstone.providers.capabilities import (
    FILE,
    Capabilities,
    InlineThoughts,
    Lessons,
    add_price,
    estimate_tokens,
    look_up,
    parse_overrides,
)
from ragstone.providers.http import Endpoint
from ragstone.providers.retry import (
    Failure,
    Pieces,
    ProviderHealth,
    RetryPolicy,
    Service,
    StatusError,
    Stop,
    Thought,
    is_about_length,
    stream_with_retries,
)
from ragstone.settings import Settings
from ragstone.settings.services import ServiceSettings
from ragstone.types import Message, Prompt

_OPEN, _CLOSE = "<think>", "</think>"


class ThoughtFilter:
    """Pass on the text after the thoughts. Feed it the pieces, and close it at the end.

    With "open" the first tag may be missing, because the prompt already held it: everything is held
    back until the closing tag, and passed on at the end if there is none. A text that only mentions
    the tags later is not changed.
    """

    def __init__(self, kind: InlineThoughts) -> None:
        self._kind = kind
        self._held = ""
        self._saw_tag = False
        self._state: Literal["begin", "thinking", "after", "text"] = "begin" if kind else "text"

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now; it may be empty."""
        if self._state == "text":
            return piece
        self._held += piece
        if self._state == "begin":
            self._state = self._look_at_begin(self._held.lstrip())
        if self._state == "thinking":
            _, tag, after = self._held.partition(_CLOSE)
            if tag:
                self._held, self._state = after, "after"
        if self._state == "after":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "after"
        return self._release() if self._state == "text" else ""

    def close(self) -> str:
        """Return what is left. Thoughts that never ended are not text."""
        return "" if self._saw_tag or self._state == "after" else self._release()

    def _look_at_begin(self, start: str) -> Literal["begin", "thinking", "text"]:
        if len(start) < len(_OPEN) and _OPEN.startswith(start):
            return "begin"
        self._saw_tag = start.startswith(_OPEN)
        return "thinking" if self._saw_tag or self._kind == "open" else "text"

    def _release(self) -> str:
        text, self._held = self._held, ""
        return text


# A model may refuse more than one field, each in a reply of its own.
_MAX_LESSONS = 4
# A model that thinks in silence gets this much more time for its first word.
_HIDDEN_THINKING = 4.0
_PROBE = (Message("user", "Reply with the word: ready"),)
_PROBE_TOKENS = 16

_WITH_SMALL_MODEL = ("openai", "anthropic", "google")

CountUsage = Callable[[Usage], None]


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one call, independent of the service."""

    messages: tuple[Message, ...]
    model: str
    temperature: float
    max_tokens: int
    schema: Mapping[str, Any] | None = None
    is_fast: bool = False
    capabilities: Capabilities = field(default_factory=Capabilities)
    effort: str = ""

    @property
    def token_limit(self) -> int:
        """Return the limit to send: the thoughts of a model count against it."""
        known = self.capabilities
        limit = self.max_tokens + known.count_thinking(self.effort)
        if known.context_window:
            limit = max(16, min(limit, known.context_window - self.count_input()))
        return min(limit, known.max_output) if known.max_output else limit

    def measure_excess(self) -> int:
        """Return by how many tokens the messages leave too little of the window for a reply.

        A reply may take half of the window at most; thoughts get what is left.
        """
        window = self.capabilities.context_window
        if not window:
            return 0
        return max(0, self.count_input() - (window - min(self.max_tokens, window // 2)))

    def count_input(self) -> int:
        """Estimate the tokens of the messages."""
        return sum(estimate_tokens(message.content) + 8 for message in self.messages)

    def fit(self, capabilities: Capabilities, reasoning: str) -> Request:
        """Return the request as a model with these capabilities accepts it."""
        messages = self.messages
        if self.schema is not None and capabilities.json != "schema":
            text = json.dumps(self.schema, ensure_ascii=False)
            last = messages[-1]
            asked = f"{last.content}\n\nReply with one JSON value and nothing else. Schema: {text}"
            messages = (*messages[:-1], replace(last, content=asked))
        if not capabilities.system_role:
            messages = _merge_system(messages)
        effort = capabilities.choose_effort(reasoning, is_fast=self.is_fast)
        return replace(self, messages=messages, capabilities=capabilities, effort=effort)


def _merge_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Put the system text before the first message of the user."""
    system = [one.content for one in messages if one.role == "system"]
    rest = [one for one in messages if one.role != "system"]
    if not system or not rest:
        return messages
    first = replace(rest[0], content="\n\n".join([*system, rest[0].content]))
    return (first, *rest[1:])


def format_messages(request: Request) -> list[dict[str, str]]:
    """Return the messages in the form that most services use."""
    return [{"role": message.role, "content": message.content} for message in request.messages]


class Wire(Protocol):
    """Speak the protocol of one service: stream text, thoughts, usage, and why it ended."""

    @property
    def name(self) -> str: ...
    @property
    def service(self) -> Service: ...
    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def kind(self) -> str:
        """Return the name of the service in the table of models."""
        ...

    def stream_pieces(self, request: Request) -> Pieces: ...
    def explain(self, error: Exception, model: str) -> Failure | None:
        """Describe an error of this service; None for one that any connection may have."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ChatProvider:
    """Use a large model for answers and a small fast one for other steps, over one wire."""

    counts_usage: ClassVar[bool] = True
    wire: Wire
    model: str
    fast_model: str
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    options: ServiceSettings = field(default_factory=ServiceSettings)
    lessons: Lessons = field(default_factory=Lessons)
    health: ProviderHealth = field(default_factory=ProviderHealth)

    @property
    def name(self) -> str:
        return self.wire.name

    def find_capabilities(self, model: str) -> Capabilities:
        default = look_up(self.wire.kind, model, self.options.capabilities)
        return self.lessons.recall(model, default)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | Usage]:
        async for piece in self._stream(self._build_request(prompt)):
            yield piece

    def measure_excess(self, prompt: Prompt) -> int:
        """Return by how many tokens a prompt is too long for the model; 0 if its window is not
        known. The tokens are estimated, rather too many."""
        request = self._build_request(prompt)
        return replace(request, capabilities=self.find_capabilities(request.model)).measure_excess()

    def _build_request(self, prompt: Prompt) -> Request:
        model = prompt.model or self.model
        return Request(prompt.messages, model, prompt.temperature, self.options.token_limit)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        count: CountUsage | None = None,
    ) -> str:
        """Return the small model's whole reply; with a schema, one JSON value and nothing else.

        `count` is told the usage of every call. A reply that is not JSON is sent back once, to be
        repaired.
        """
        limit = self.options.token_limit
        request = Request(tuple(messages), self.fast_model, 0.0, limit, schema, is_fast=True)
        text = await self._collect(request, count)
        if schema is None:
            return text
        try:
            return extract_json(text, schema)
        except UnusableReplyError as error:
            complaint = f"This cannot be used: {error.message} Reply with the JSON value alone."
            again = (*messages, Message("assistant", text), Message("user", complaint))
            text = await self._collect(replace(request, messages=again), count)
            return extract_json(text, schema)

    async def probe(self) -> None:
        """Ask for one word; raise a ProviderError if none comes. `health` keeps the outcome."""
        request = Request(_PROBE, self.model, 0.0, _PROBE_TOKENS, is_fast=True)
        try:
            await self._collect(request, None)
        except ProviderError as error:
            # A model that was cut off, or has nothing to say, is there all the same.
            if error.reason not in ("length", "empty"):
                self.health.record_failure(error, is_probe=True)
                raise
            self.health.record_success()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self.wire.aclose()

    async def _collect(self, request: Request, count: CountUsage | None) -> str:
        pieces = []
        async for piece in self._stream(request):
            if isinstance(piece, str):
                pieces.append(piece)
            elif count is not None:
                count(piece)
        return "".join(pieces)

    async def _stream(self, request: Request) -> AsyncIterator[str | Usage]:
        policy = self.policy
        if self.find_capabilities(request.model).thinks_hidden:
            policy = replace(policy, first_word_s=policy.timeout_s * _HIDDEN_THINKING)
        pieces = stream_with_retries(
            self.wire.service,
            lambda: self._attempt(request),
            lambda error: self.wire.explain(error, request.model),
            policy,
        )
        usage: Usage | None = None
        stop: StopReason = "stop"
        written = 0
        try:
            async for piece in pieces:
                if isinstance(piece, Stop):
                    stop = piece.reason
                elif isinstance(piece, Usage):
                    usage = piece
                else:
                    written += estimate_tokens(piece)
                    yield piece
        except ProviderError as error:
            self.health.record_failure(error)
            raise
        self.health.record_success()
        if usage is None:
            usage = Usage(request.count_input(), written, is_estimate=True)
        told = replace(usage, provider=self.name, model=request.model, stop_reason=stop)
        yield add_price(told, request.model)

    async def _attempt(self, request: Request) -> Pieces:
        """Yield the pieces of one call, without thoughts; adapt it if a field is refused."""
        for lesson in range(_MAX_LESSONS + 1):
            known = self.find_capabilities(request.model)
            thoughts = ThoughtFilter(known.inline_thoughts)
            pieces = self.wire.stream_pieces(request.fit(known, self.options.reasoning))
            try:
                async for piece in pieces:
                    if not isinstance(piece, str):
                        yield piece
                    elif text := thoughts.feed(piece):
                        yield text
                    else:
                        yield Thought()
                if rest := thoughts.close():
                    yield rest
            except StatusError as error:
                too_long = is_about_length(error.status, error.detail)
                refused = too_long or (error.status in (400, 422) and lesson < _MAX_LESSONS)
                has_learned = refused and self.lessons.learn(
                    self.name, request.model, known, error.detail, request.count_input()
                )
                # The same messages would be too long again: the caller has to shorten them.
                if too_long or not has_learned:
                    raise
            else:
                return
            finally:
                await pieces.aclose()


def extract_json(text: str, schema: Mapping[str, Any] | None = None) -> str:
    """Return the first JSON value in a reply, which may have text or a code fence around it.

    With a schema the value must be of its type and have its required names.
    """
    decoder = json.JSONDecoder()
    missing = ""
    for match in re.finditer(r"[\[{]", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        missing = _find_missing(value, schema or {})
        if not missing:
            return json.dumps(value, ensure_ascii=False)
    raise UnusableReplyError(
        missing or "The reply of the model holds no JSON.", hint="Try a larger model."
    )


def _find_missing(value: Any, schema: Mapping[str, Any]) -> str:
    if schema.get("type") != "object":
        return ""
    if not isinstance(value, dict):
        return "The reply of the model must be a JSON object."
    absent = [name for name in schema.get("required", ()) if name not in value]
    return f"The reply of the model lacks {', '.join(absent)}." if absent else ""


def build_provider(
    wire: Wire, options: ServiceSettings, settings: Settings, *, model: str, fast_model: str
) -> ChatProvider:
    """Build a provider; `model` and `fast_model` are used where the settings name none."""
    fixed = frozenset(parse_overrides(options.capabilities))  # a wrong override is an error
    main = options.model or model
    kept = settings.data.directory / FILE
    # A server of one's own may not have the small model of the service.
    is_own = wire.kind != "openai" if options.base_url else wire.kind not in _WITH_SMALL_MODEL
    return ChatProvider(
        wire,
        main,
        options.fast_model or (main if is_own else fast_model),
        RetryPolicy(
            max_retries=settings.provider.max_retries, timeout_s=settings.provider.timeout_s
        ),
        options,
        Lessons(wire.kind, wire.endpoint.base_url, kept, fixed),
    )
