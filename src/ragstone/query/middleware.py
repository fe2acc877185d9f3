"""Wrap the pipeline: moderation, history, conversation, answer cache. One list, one signature.

A middleware gets the query, its run and the next handler, and returns the stream of events. It may
change the query, answer by itself, or add a step that runs on the finished answer. The order is
stated in `build.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ragstone.errors import ProviderError, RefusedError, StoreError
from ragstone.events import ClaimsChecked, Event, Finished, Token
from ragstone.fallback import Fallbacks
from ragstone.protocols import Moderated, Moderator
from ragstone.query.conversation import Conversation
from ragstone.settings.services import ModerateSettings
from ragstone.trace import QueryRun
from ragstone.types import Answer, Message, Query

if TYPE_CHECKING:
    from ragstone.query.answer import Pipeline

log = logging.getLogger(__name__)

_NOT_AGREED = (
    "This conversation is not remembered: its user has not agreed that anything is stored. "
    "Agree with `ragstone consent give` or POST /v1/consent."
)

Finish: TypeAlias = Callable[[Answer], Awaitable[Answer]]


class EventStream:
    """Iterate over the events of one answer, and finish the answer with the steps added by `then`.

    A class and not a generator: however many middlewares there are, a token passes one iterator.
    """

    def __init__(self, events: AsyncGenerator[Event, None] | EventStream) -> None:
        self._events = events
        self._steps: list[Finish] = []
        self._ready: deque[Event] = deque()
        self._hold_tokens = False

    def then(self, step: Finish, *, hold_tokens: bool = False) -> EventStream:
        """Run `step` on the finished answer. `hold_tokens`: show no text before that."""
        self._steps.append(step)
        self._hold_tokens = self._hold_tokens or hold_tokens
        return self

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        if self._ready:
            return self._ready.popleft()
        event = await anext(self._events)
        while self._hold_tokens and isinstance(event, Token | ClaimsChecked):
            event = await anext(self._events)
        if not isinstance(event, Finished):
            return event
        answer = event.answer
        for step in self._steps:
            answer = await step(answer)
        self._ready.append(Finished(answer))
        if self._hold_tokens:
            self._ready.appendleft(Token(answer.text, verified=True))
        return self._ready.popleft()

    async def aclose(self) -> None:
        await self._events.aclose()


Handler: TypeAlias = Callable[[Query, QueryRun], Awaitable[EventStream]]


class Middleware(Protocol):
    """Stand between a caller and the pipeline."""

    async def handle(self, query: Query, run: QueryRun, next_: Handler) -> EventStream: ...


def apply_middleware(middleware: Sequence[Middleware], handler: Handler) -> Handler:
    """Return `handler` inside every middleware; the first of the list is the outermost."""
    for one in reversed(middleware):
        handler = _bind(one, handler)
    return handler


def _bind(middleware: Middleware, next_: Handler) -> Handler:
    async def handle(query: Query, run: QueryRun) -> EventStream:
        return await middleware.handle(query, run, next_)

    return handle


@dataclass(frozen=True, slots=True)
class Moderation:
    """Ask the moderator, where there is one, and act on what it says."""

    moderator: Moderator | None
    options: ModerateSettings
    fallbacks: Fallbacks

    async def check_question(self, messages: Iterable[Message], run: QueryRun) -> None:
        """Refuse what a user says in a request: the question, and what was said before it."""
        if self.moderator is None or not self.options.questions:
            return
        # A client may also write the messages of the other roles.
        said = "\n\n".join(message.content for message in messages)
        objection = await self._object("question", said, run)
        if objection is not None:
            raise RefusedError(
                f"The question is refused: {objection}",
                hint="If this is a mistake, tell the person who runs this server.",
            )

    def moderate_answer(self, stream: EventStream, run: QueryRun) -> EventStream:
        """Judge the finished answer; nothing of it goes out before."""
        judges = getattr(self.moderator, "judges", ("question", "answer"))
        if self.moderator is None or not self.options.answers or "answer" not in judges:
            return stream

        async def judge(answer: Answer) -> Answer:
            try:
                objection = await self._object("answer", answer.text, run)
            except ProviderError:
                objection = "It could not be judged."
            degraded = tuple(dict.fromkeys((*answer.degraded, *run.degraded)))
            answer = replace(
                answer,
                degraded=degraded,
                notes=tuple(dict.fromkeys(run.notes)),
                trace=run.as_dict(),
                **run.measure(),
            )
            return answer if objection is None else withhold(answer, objection)

        return stream.then(judge, hold_tokens=True)

    async def _object(self, kind: Moderated, text: str, run: QueryRun) -> str | None:
        assert self.moderator is not None
        with run.span(f"moderate.{kind}") as span:
            try:
                async with asyncio.timeout(self.options.timeout_s):
                    objection = await self.moderator.objection(kind, text)
            except Exception as error:  # whatever a plug-in raises
                if self.options.when_it_fails == "refuse":
                    raise ProviderError(
                        f"The {kind} could not be judged ({type(error).__name__}).",
                        hint="Nothing goes out that was not judged. Ask again later.",
                    ) from error
                self.fallbacks.use("without_moderation", run, span, error)
                return None
            span.count(moderator=self.moderator.name, refused=objection is not None)
        if objection is not None:
            log.warning("refused", extra={"kind": kind, "request_id": run.request_id})
        return objection


@dataclass(frozen=True, slots=True)
class ModerateQuestions:
    """Refuse a question before any work is done."""

    moderation: Moderation

    async def handle(self, query: Query, run: QueryRun, next_: Handler) -> EventStream:
        await self.moderation.check_question(query.messages, run)
        return await next_(query, run)


@dataclass(frozen=True, slots=True)
class ModerateAnswers:
    """Judge an answer before anything of it goes out."""

    moderation: Moderation

    async def handle(self, query: Query, run: QueryRun, next_: Handler) -> EventStream:
        return self.moderation.moderate_answer(await next_(query, run), run)


def withhold(answer: Answer, objection: str) -> Answer:
    """Remove the text of an answer, and everything that repeats it."""
    return replace(
        answer,
        text=f"This answer is withheld: {objection}",
        status="refused",
        citations=(),
        claims=(),
        highlights=(),
        is_grounded=False,
        groundedness_score=0.0,
        confidence=0.0,
        citation_precision=0.0,
        citation_recall=0.0,
    )


async def store_or_degrade(answer: Answer, write: Callable[[], Awaitable[None]]) -> Answer:
    """Write an answer down; a store that cannot take it costs the memory, not the answer."""
    try:
        await write()
    except StoreError as error:
        log.warning("an answer was not stored: %s", type(error).__name__)
        degraded = dict.fromkeys((*answer.degraded, "not_remembered"))
        return replace(answer, degraded=tuple(degraded))
    return answer


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """Write every answer into the journal, as far as QUERY_LOG allows."""

    write: Callable[[Answer, QueryRun, str | None], Awaitable[None]]

    async def handle(self, query: Query, run: QueryRun, next_: Handler) -> EventStream:
        stream = await next_(query, run)

        async def record(answer: Answer) -> Answer:
            return await self.record(answer, run, query.upload_id)

        return stream.then(record)

    async def record(self, answer: Answer, run: QueryRun, upload_id: str | None) -> Answer:
        return await store_or_degrade(answer, lambda: self.write(answer, run, upload_id))


@dataclass(frozen=True, slots=True)
class UseConversation:
    """Send the conversation along with a question, and add the answered turn to it."""

    conversation: Conversation

    async def handle(self, query: Query, run: QueryRun, next_: Handler) -> EventStream:
        if not run.session_id:
            return await next_(query, run)
        stream = await next_(await self.with_history(query, run), run)

        async def keep(answer: Answer) -> Answer:
            return await self.keep_turn(answer, run)

        return stream.then(keep)

    async def with_history(self, query: Query, run: QueryRun) -> Query:
        if not run.session_id:
            return query
        recalled = await self.conversation.recall(run.owner, run.session_id, query, run)
        return replace(query, history=(*recalled, *query.history))

    async def keep_turn(self, answer: Answer, run: QueryRun) -> Answer:
        if not run.session_id:
            return answer
        owner, session_id, is_kept = run.owner, run.session_id, True

        async def add_turn() -> None:
            nonlocal is_kept
            is_kept = await self.conversation.add_turn(owner, session_id, answer)

        answer = await store_or_degrade(answer, add_turn)
        return answer if is_kept else replace(answer, notes=(*answer.notes, _NOT_AGREED))


def stream_answer(pipeline: Pipeline) -> Handler:
    """Return the innermost handler: the pipeline itself."""

    async def handle(query: Query, run: QueryRun) -> EventStream:
        return EventStream(pipeline.answer(query, run))

    return handle


async def merge_streams(
    streams: Mapping[str, EventStream],
) -> AsyncGenerator[tuple[str, Event], None]:
    """Yield the events of several streams as they come. When one fails, or the consumer leaves,
    the others are stopped."""
    arriving: asyncio.Queue[tuple[str, Event] | asyncio.Task[None]] = asyncio.Queue()

    async def drain(name: str, stream: EventStream) -> None:
        async with aclosing(stream):
            async for event in stream:
                arriving.put_nowait((name, event))

    tasks = tuple(asyncio.create_task(drain(*one)) for one in streams.items())
    running = set(tasks)
    for task in tasks:
        task.add_done_callback(arriving.put_nowait)
    try:
        while running:
            one = await arriving.get()
            if isinstance(one, tuple):
                yield one
            else:
                running.discard(one)
                one.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
