"""Remember a conversation: which of its turns are sent along with the next question.

turns → messages, bounded by turns and tokens. Older turns are summarised: by a model, or without
one as a list of the questions with the first sentences of their answers.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ragstone.catalog.feedback import SqlConsents
from ragstone.errors import InputError, ProviderError
from ragstone.fallback import Fallbacks
from ragstone.prompts import render
from ragstone.protocols import Catalog, Chat, Embedder, MeteredChat
from ragstone.query.ground.context import cut_at_sentence
from ragstone.settings import MemorySettings
from ragstone.text import find_sentence_spans
from ragstone.threads import run_in_thread
from ragstone.trace import QueryRun, Span
from ragstone.types import SMALL_TALK, Answer, Message, Query, Session, Turn

_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]{1,80}:\d{1,6})\]")
_SESSION_ID = re.compile(r"[\w.:@-]{1,128}")
# A word of English is about 1.3 tokens of the embedder.
_WORDS_PER_TOKEN = 0.7


class Sessions(Protocol):
    """Store conversations, each with its owner."""

    def find(self, owner: str, session_id: str) -> Session | None: ...
    def add(
        self, owner: str, session_id: str, collection: str, turn: Turn, *, kept_turns: int
    ) -> bool:
        """Append a turn; return False when the owner has not agreed to that."""
        ...

    def summarise(self, owner: str, session_id: str, summary: str, *, before: int) -> None: ...


_MAX_VOLATILE = 500


class VolatileSessions:
    """Keep conversations in memory alone, where QUERY_LOG forbids to store text.

    The least recently used go first; a restart forgets all.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, owner: str, session_id: str) -> Session | None:
        with self._lock:
            return self._sessions.get((owner, session_id))

    def add(
        self, owner: str, session_id: str, collection: str, turn: Turn, *, kept_turns: int
    ) -> bool:
        now = time.time()
        with self._lock:
            session = self._sessions.pop((owner, session_id), None)
            session = session or Session(session_id, owner, collection, now, now)
            position = session.turns[-1].position + 1 if session.turns else 0
            turns = (*session.turns, replace(turn, position=position))[-kept_turns:]
            self._sessions[owner, session_id] = replace(session, turns=turns, updated_at=now)
            while len(self._sessions) > _MAX_VOLATILE:
                self._sessions.popitem(last=False)
        return True

    def delete(self, owner: str, session_id: str) -> None:
        with self._lock:
            self._sessions.pop((owner, session_id), None)

    def summarise(self, owner: str, session_id: str, summary: str, *, before: int) -> None:
        with self._lock:
            if session := self._sessions.get((owner, session_id)):
                changed = replace(session, summary=summary, summarised=before)
                self._sessions[owner, session_id] = changed


@dataclass(frozen=True, slots=True)
class ConsentedSessions:
    """Keep the conversations of those who agreed, and of nobody else, not even in memory."""

    sessions: Sessions
    consents: SqlConsents
    catalog: Catalog

    def find(self, owner: str, session_id: str) -> Session | None:
        consent = self.consents.find(owner)
        session = self.sessions.find(owner, session_id) if consent else None
        if session is None or consent is None or session.created_at >= consent.agreed_at:
            return session
        # What was said before a withdrawal is not remembered after agreeing again.
        if isinstance(self.sessions, VolatileSessions):
            self.sessions.delete(owner, session_id)
            return None
        return session

    def add(
        self, owner: str, session_id: str, collection: str, turn: Turn, *, kept_turns: int
    ) -> bool:
        # In one transaction with the check: the user may withdraw while the answer is written.
        with self.catalog.write_transaction("sessions") as connection:
            return self.consents.may_store(connection, owner) and self.sessions.add(
                owner, session_id, collection, turn, kept_turns=kept_turns
            )

    def summarise(self, owner: str, session_id: str, summary: str, *, before: int) -> None:
        self.sessions.summarise(owner, session_id, summary, before=before)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Recall a session before a question, and add the turn after it."""

    sessions: Sessions
    embedder: Embedder
    options: MemorySettings
    chat: Chat | None
    fallbacks: Fallbacks

    async def recall(
        self, owner: str, session_id: str, query: Query, run: QueryRun
    ) -> tuple[Message, ...]:
        """Return the conversation so far as messages."""
        check_session_id(session_id)
        with run.span("remember.recall") as span:
            session = await run_in_thread("store", self.sessions.find, owner, session_id)
            if session is None:
                span.count(turns=0)
                return ()
            if session.collection != query.collection:
                raise InputError(
                    f"The session '{session_id}' belongs to the collection '{session.collection}'.",
                    hint="Use another session_id for another collection.",
                )
            turns = _list_unsummarised(session)
            old, recent = split_turns(turns, self.options, self._count_tokens)
            summary = session.summary
            if old:
                summary = await self._summarise(session, old, run, span)
                await run_in_thread(
                    "store",
                    self.sessions.summarise,
                    owner,
                    session_id,
                    summary,
                    before=old[-1].position + 1,
                )
            span.count(turns=len(recent), summarised=len(old), summary_chars=len(summary))
            return build_messages(summary, recent, self.options.max_tokens, self._count_tokens)

    async def add_turn(self, owner: str, session_id: str, answer: Answer) -> bool:
        """Add an answered question to the end of its session; False if the owner did not agree."""
        turn = Turn(
            0,
            answer.query_id,
            answer.question,
            answer.text,
            answer.status,
            answer.detected_intent,
            time.time(),
            answer.searched_as,
        )
        return await run_in_thread(
            "store",
            self.sessions.add,
            owner,
            session_id,
            answer.collection,
            turn,
            kept_turns=self.options.kept_turns,
        )

    async def _summarise(
        self, session: Session, old: Sequence[Turn], run: QueryRun, span: Span
    ) -> str:
        limit = self.options.summary_tokens
        if self.chat is not None:
            try:
                chat = MeteredChat(self.chat, span)
                return await _write_summary(chat, session.summary, old, limit, self._count_tokens)
            except Exception as error:  # noqa: BLE001  whatever a provider raises, a digest will do
                self.fallbacks.use("without_llm_steps", run, span, error)
        return digest_turns(session.summary, old, limit, self._count_tokens)

    def _count_tokens(self, text: str) -> int:
        return len(self.embedder.token_starts(text))


def _list_unsummarised(session: Session) -> list[Turn]:
    """Return the turns that are not in the summary yet, without small talk."""
    rest = (turn for turn in session.turns if turn.position >= session.summarised)
    return [turn for turn in rest if turn.intent not in SMALL_TALK]


def check_session_id(session_id: str) -> str:
    if not _SESSION_ID.fullmatch(session_id):
        raise InputError(
            f"Invalid session id '{session_id[:128]}'. Use 1 to 128 letters, digits, dots, colons, "
            "dashes, underscores or @.",
            hint="Use a UUID, for example.",
        )
    return session_id


def split_turns(
    turns: Sequence[Turn], options: MemorySettings, tokens: Callable[[str], int]
) -> tuple[list[Turn], list[Turn]]:
    """Split turns into those to summarise and those to keep.

    All are kept while they fit. Once they do not, half of the budget is made free, so that not
    every further turn costs a summary; the last turn always stays.
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


def build_messages(
    summary: str, turns: Sequence[Turn], max_tokens: int, tokens: Callable[[str], int]
) -> tuple[Message, ...]:
    """Build the messages for a chat model; an answer longer than the whole budget is cut."""
    messages = [Message("system", f"Earlier in this conversation:\n{summary}")] if summary else []
    for turn in turns:
        answer = _MARKER.sub("", turn.answer)
        if tokens(answer) > max_tokens:
            answer = cut_at_sentence(answer, lambda part: tokens(part) <= max_tokens)
        asked = Message("user", turn.question, turn.searched_as or turn.question)
        messages += [asked, Message("assistant", answer or "…")]
    return tuple(messages)


def digest_turns(
    summary: str, turns: Sequence[Turn], max_tokens: int, tokens: Callable[[str], int]
) -> str:
    """Summarise without a model: each question with the first sentence of its answer.

    When that is too long, the oldest lines are dropped.
    """
    lines = [line for line in summary.splitlines() if line.strip()]
    for turn in turns:
        answer = _MARKER.sub("", turn.answer)
        spans = find_sentence_spans(answer)
        first = answer[spans[0][0] : spans[0][1]] if spans else answer
        has_answer = turn.status in ("answered", "ungrounded")
        answer = " ".join(first.split()) if has_answer else "not in the documents"
        lines.append(f"- {turn.searched_as or turn.question} → {answer}")
    while len(lines) > 1 and tokens("\n".join(lines)) > max_tokens:
        lines.pop(0)
    return _cut_to_tokens("\n".join(lines), max_tokens, tokens)


async def _write_summary(
    chat: Chat, summary: str, turns: Sequence[Turn], max_tokens: int, tokens: Callable[[str], int]
) -> str:
    conversation = "\n".join(
        f"user: {turn.question}\nassistant: {_MARKER.sub('', turn.answer)}" for turn in turns
    )
    words = str(int(max_tokens * _WORDS_PER_TOKEN))
    prompt = render("summarise_session", summary=summary, conversation=conversation, words=words)
    written = (await chat.complete([Message("user", prompt)])).strip()
    if not written:
        raise ProviderError("The model wrote an empty summary.")
    return _cut_to_tokens(written, max_tokens, tokens)


def _cut_to_tokens(text: str, max_tokens: int, tokens: Callable[[str], int]) -> str:
    """Cut a text that is too long at the end of a sentence, or else at any letter."""
    if tokens(text) <= max_tokens:
        return text
    if cut := cut_at_sentence(text, lambda part: tokens(part) <= max_tokens):
        return cut
    while tokens(text) > max_tokens:
        text = text[: len(text) * 3 // 4]
    return text.rstrip() + "…"
