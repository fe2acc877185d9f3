"""A session's memory: what of a conversation is sent along with its next question.

turns → messages, bounded by turns and tokens; what is older lives on in a summary, which a model
writes, or where there is none a digest of the questions and the first sentences of their answers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragstone.errors import InputError, ProviderError
from ragstone.prompts import render
from ragstone.protocols import Chat, Embedder
from ragstone.query.fallback import Fallbacks
from ragstone.query.ground.context import cut_at_sentence
from ragstone.settings import MemorySettings
from ragstone.text import sentence_spans
from ragstone.trace import QueryRun, Span
from ragstone.types import SMALL_TALK, Answer, Message, Query, Session, Turn

_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]{1,80}:\d{1,6})\]")
_SESSION_ID = re.compile(r"[\w.:@-]{1,128}")
# A word of English is about 1.3 tokens of the embedder.
_WORDS_PER_TOKEN = 0.7


class Sessions(Protocol):
    """Conversations, each with its owner."""

    def find(self, owner: str, session_id: str) -> Session | None: ...
    def add(
        self, owner: str, session_id: str, collection: str, turn: Turn, *, kept_turns: int
    ) -> None: ...
    def summarise(self, owner: str, session_id: str, summary: str, *, before: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Conversation:
    """Recall a session before a question and keep the turn after it."""

    sessions: Sessions
    embedder: Embedder
    options: MemorySettings
    chat: Chat | None
    fallbacks: Fallbacks

    async def recall(
        self, owner: str, session_id: str, query: Query, run: QueryRun
    ) -> tuple[Message, ...]:
        """What the conversation was about so far, as messages."""
        check_session_id(session_id)
        with run.span("remember.recall") as span:
            session = await asyncio.to_thread(self.sessions.find, owner, session_id)
            if session is None:
                span.count(turns=0)
                return ()
            if session.collection != query.collection:
                raise InputError(
                    f"The session '{session_id}' is about the collection '{session.collection}'.",
                    hint="Use another session_id for another collection.",
                )
            turns = _unsummarised(session)
            old, recent = split(turns, self.options, self._tokens)
            summary = session.summary
            if old:
                summary = await self._summarised(session, old, run, span)
                await asyncio.to_thread(
                    self.sessions.summarise, owner, session_id, summary, before=old[-1].position + 1
                )
            span.count(turns=len(recent), summarised=len(old), summary_chars=len(summary))
            return messages(summary, recent, self.options.max_tokens, self._tokens)

    async def keep(self, owner: str, session_id: str, answer: Answer) -> None:
        """Put an answered question at the end of its session."""
        turn = Turn(
            0, answer.query_id, answer.question, answer.text, answer.status,
            answer.detected_intent, time.time(),
        )  # fmt: skip
        await asyncio.to_thread(
            self.sessions.add, owner, session_id, answer.collection, turn,
            kept_turns=self.options.kept_turns,
        )  # fmt: skip

    async def _summarised(
        self, session: Session, old: Sequence[Turn], run: QueryRun, span: Span
    ) -> str:
        limit = self.options.summary_tokens
        if self.chat is not None:
            try:
                return await _written(self.chat, session.summary, old, limit, self._tokens)
            except Exception as error:  # noqa: BLE001  whatever a provider raises, a digest will do
                self.fallbacks.use("without_llm_steps", run, span, error)
        return digest(session.summary, old, limit, self._tokens)

    def _tokens(self, text: str) -> int:
        return len(self.embedder.token_starts(text))


def _unsummarised(session: Session) -> list[Turn]:
    """What is not in the summary yet; small talk is no part of a memory."""
    rest = (turn for turn in session.turns if turn.position >= session.summarised)
    return [turn for turn in rest if turn.intent not in SMALL_TALK]


def check_session_id(session_id: str) -> str:
    if not _SESSION_ID.fullmatch(session_id):
        raise InputError(
            "A session's id has 1 to 128 letters, digits, dots, colons, dashes or underscores.",
            hint="Use a UUID, for example.",
        )
    return session_id


def split(
    turns: Sequence[Turn], options: MemorySettings, tokens: Callable[[str], int]
) -> tuple[list[Turn], list[Turn]]:
    """Turns to summarise and turns to keep as they are.

    All are kept while they fit. Once they do not, half of the room is made free, so that the next
    turns cost no summary each; the last turn always stays.
    """
    sizes = [tokens(turn.question) + tokens(turn.answer) for turn in turns]
    if len(turns) <= options.max_turns and sum(sizes) <= options.max_tokens:
        return [], list(turns)
    kept, used = 0, 0
    for size in reversed(sizes):
        fits = kept < max(1, options.max_turns // 2) and used + size <= options.max_tokens // 2
        if kept and not fits:
            break
        kept, used = kept + 1, used + size
    border = len(turns) - kept
    return list(turns[:border]), list(turns[border:])


def messages(
    summary: str, turns: Sequence[Turn], max_tokens: int, tokens: Callable[[str], int]
) -> tuple[Message, ...]:
    """The conversation as a chat model sees it; an answer too long for all the room is cut."""
    found = [Message("system", f"Earlier in this conversation:\n{summary}")] if summary else []
    for turn in turns:
        answer = _MARKER.sub("", turn.answer)
        if tokens(answer) > max_tokens:
            answer = cut_at_sentence(answer, lambda part: tokens(part) <= max_tokens)
        found += [Message("user", turn.question), Message("assistant", answer or "…")]
    return tuple(found)


def digest(
    summary: str, turns: Sequence[Turn], max_tokens: int, tokens: Callable[[str], int]
) -> str:
    """The summary that needs no model: each question with the first sentence of its answer.

    When that is too long, the oldest lines go.
    """
    lines = [line for line in summary.splitlines() if line.strip()]
    for turn in turns:
        answer = _MARKER.sub("", turn.answer)
        spans = sentence_spans(answer)
        first = answer[spans[0][0] : spans[0][1]] if spans else answer
        said = " ".join(first.split()) if turn.status == "answered" else "not in the documents"
        lines.append(f"- {turn.question} → {said}")
    while len(lines) > 1 and tokens("\n".join(lines)) > max_tokens:
        lines.pop(0)
    return _cut("\n".join(lines), max_tokens, tokens)


async def _written(
    chat: Chat, summary: str, turns: Sequence[Turn], max_tokens: int, tokens: Callable[[str], int]
) -> str:
    conversation = "\n".join(
        f"user: {turn.question}\nassistant: {_MARKER.sub('', turn.answer)}" for turn in turns
    )
    words = str(int(max_tokens * _WORDS_PER_TOKEN))
    prompt = render("summarise_session", summary=summary, conversation=conversation, words=words)
    written = (await chat.complete([Message("user", prompt)])).strip()
    if not written:
        raise ProviderError("The model gave an empty summary.")
    return _cut(written, max_tokens, tokens)


def _cut(text: str, max_tokens: int, tokens: Callable[[str], int]) -> str:
    """A text that models wrote too long, at a sentence's end, or where it must be at any letter."""
    if tokens(text) <= max_tokens:
        return text
    if cut := cut_at_sentence(text, lambda part: tokens(part) <= max_tokens):
        return cut
    while tokens(text) > max_tokens:
        text = text[: len(text) * 3 // 4]
    return text.rstrip() + "…"
