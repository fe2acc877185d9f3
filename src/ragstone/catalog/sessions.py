"""Store conversations in the catalog's database, each with its owner."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select

from ragstone.catalog.journal import delete_orphans
from ragstone.catalog.schema import queries, sessions, turns
from ragstone.errors import NotFoundError
from ragstone.protocols import Catalog
from ragstone.types import SMALL_TALK, Session, Turn

_TITLE_CHARS = 80
_MARKER = re.compile(r"\[Source (\d+)\]")
NO_CITATIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {}

_own_turns = (turns.c.owner == sessions.c.owner, turns.c.session_id == sessions.c.id)
_turn_count = (
    select(func.count())
    .where(*_own_turns)
    .correlate(sessions)
    .scalar_subquery()
    .label("turn_count")
)
_first_question = (
    select(turns.c.question)
    .where(*_own_turns)
    # "hi" becomes the title only where nothing else was said.
    .order_by(turns.c.intent.in_(sorted(SMALL_TALK)), turns.c.position)
    .limit(1)
    .correlate(sessions)
    .scalar_subquery()
    .label("first_question")
)


class SqlSessions:
    """Read and write the tables `sessions` and `turns`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def find(self, owner: str, session_id: str) -> Session | None:
        """Return a session with its turns, or None."""
        with self._catalog.read_transaction() as connection:
            row = connection.execute(select(sessions).where(*_is_session(owner, session_id)))
            fields = row.mappings().first()
            if fields is None:
                return None
            found = _read_turns(connection, owner, session_id)
        asked = sorted(found, key=lambda turn: turn.intent in SMALL_TALK)
        first = asked[0].question if asked else ""
        named = {**fields, "title": fields["title"] or first[:_TITLE_CHARS]}
        return Session(**named, turns=found, turn_count=len(found))

    def get(self, owner: str, session_id: str) -> Session:
        found = self.find(owner, session_id)
        if found is None:
            raise session_not_found(session_id)
        return found

    def list_sessions(
        self,
        owner: str,
        *,
        skip: int = 0,
        limit: int = 100,
        collections: Sequence[str] | None,
        text: str = "",
    ) -> list[Session]:
        """List an owner's sessions without their turns, the one used last first.

        With `text` only those that have it in their title, a question or an answer.
        """
        query = select(sessions, _turn_count, _first_question)
        latest = sessions.c.updated_at.desc(), sessions.c.id
        page = query.where(*_is_owned(owner, collections, text)).order_by(*latest)
        with self._catalog.read_transaction() as connection:
            return [_to_session(row) for row in connection.execute(page.offset(skip).limit(limit))]

    def count(self, owner: str, collections: Sequence[str] | None, text: str = "") -> int:
        wanted = _is_owned(owner, collections, text)
        query = select(func.count()).select_from(sessions).where(*wanted)
        with self._catalog.read_transaction() as connection:
            return connection.scalar(query) or 0

    def collections(self, owner: str) -> list[str]:
        """List the collections of an owner's sessions."""
        query = select(sessions.c.collection).where(sessions.c.owner == owner).distinct()
        with self._catalog.read_transaction() as connection:
            return list(connection.scalars(query))

    def add(
        self, owner: str, session_id: str, collection: str, turn: Turn, *, kept_turns: int
    ) -> bool:
        """Append a turn; the first one creates the session."""
        now = time.time()
        key = {"owner": owner, "session_id": session_id}
        with self._catalog.write_transaction("sessions") as connection:
            is_known = connection.execute(
                sessions.update().where(*_is_session(owner, session_id)).values(updated_at=now)
            ).rowcount
            if not is_known:
                new: dict[str, Any] = {"owner": owner, "id": session_id, "collection": collection}
                new |= {"created_at": now, "updated_at": now, "summary": "", "summarised": 0}
                new |= {"title": ""}
                connection.execute(sessions.insert().values(new))
            last = connection.scalar(
                select(func.max(turns.c.position)).where(*_is_turn(owner, session_id))
            )
            position = 0 if last is None else last + 1
            connection.execute(turns.insert().values(asdict(turn) | key | {"position": position}))
            is_old = turns.c.position <= position - kept_turns
            connection.execute(turns.delete().where(*_is_turn(owner, session_id), is_old))
        return True

    def summarise(self, owner: str, session_id: str, summary: str, *, before: int) -> None:
        """Store a summary of the turns before a position."""
        with self._catalog.write_transaction("sessions") as connection:
            connection.execute(
                sessions.update()
                .where(*_is_session(owner, session_id))
                .values(summary=summary, summarised=before)
            )

    def rename(self, owner: str, session_id: str, title: str) -> None:
        """Give a session a title; an empty one stands for its first question."""
        title = " ".join(title.split())[:_TITLE_CHARS]
        query = sessions.update().where(*_is_session(owner, session_id)).values(title=title)
        with self._catalog.write_transaction("sessions") as connection:
            if not connection.execute(query).rowcount:
                raise session_not_found(session_id)

    def delete(self, owner: str, session_id: str) -> None:
        """Delete a session and its queries."""
        with self._catalog.write_transaction("sessions") as connection:
            query = sessions.delete().where(*_is_session(owner, session_id))
            if not connection.execute(query).rowcount:
                raise session_not_found(session_id)
            connection.execute(turns.delete().where(*_is_turn(owner, session_id)))
            connection.execute(
                queries.delete().where(queries.c.owner == owner, queries.c.session_id == session_id)
            )
            delete_orphans(connection)

    def delete_all(self, owner: str) -> int:
        """Delete every session of an owner; return how many."""
        with self._catalog.write_transaction("sessions") as connection:
            connection.execute(turns.delete().where(turns.c.owner == owner))
            owned = sessions.delete().where(sessions.c.owner == owner)
            return int(connection.execute(owned).rowcount)

    def delete_expired(self, *, before: float) -> bool:
        """Delete older turns, and sessions not used since; return whether a turn was deleted."""
        old = select(turns.c.owner, turns.c.session_id).where(turns.c.created_at < before)
        with self._catalog.write_transaction("sessions") as connection:
            for row in connection.execute(old.distinct()).all():
                # The summary may contain an expired turn; it is made again from the other turns.
                here = _is_session(row.owner, row.session_id)
                connection.execute(sessions.update().where(*here).values(summary="", summarised=0))
            count = connection.execute(turns.delete().where(turns.c.created_at < before)).rowcount
            connection.execute(sessions.delete().where(sessions.c.updated_at < before))
            return bool(count)


def delete_collection_sessions(connection: Connection, collection: str) -> None:
    """Delete the sessions of a collection."""
    found = select(sessions.c.owner, sessions.c.id).where(sessions.c.collection == collection)
    for row in connection.execute(found).all():
        connection.execute(turns.delete().where(*_is_turn(row.owner, row.id)))
    connection.execute(sessions.delete().where(sessions.c.collection == collection))


def format_as_markdown(
    session: Session, citations: Mapping[str, Sequence[Mapping[str, Any]]] = NO_CITATIONS
) -> str:
    """Write a conversation as Markdown: for each question a heading, its answer and its sources.

    `citations` holds those of each query by its id; their numbers follow the text.
    """
    when = datetime.fromtimestamp(session.created_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [f"# {session.title or session.id}", "", f"Collection: {session.collection}. {when}."]
    for turn in session.turns:
        lines += ["", f"## {turn.question}", ""]
        if turn.searched_as:
            lines += [f"*Searched as: {turn.searched_as}*", ""]
        lines += _format_answer(turn.answer, citations.get(turn.query_id, ()))
    return "\n".join(lines) + "\n"


def _format_answer(text: str, citations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Number the sources in the order in which the text cites them, and list them below it."""
    order = dict.fromkeys(int(found[1]) for found in _MARKER.finditer(text))
    places = {number: place for place, number in enumerate(order, start=1)}
    shown = _MARKER.sub(lambda found: f"[{places[int(found[1])]}]", text)
    sources: dict[str, None] = {}
    for one in sorted(citations, key=lambda one: places.get(one["number"], len(places))):
        if one["number"] in places:
            page = f", page {one['page']}" if one["page"] else ""
            quoted = " ".join(one.get("snippet", "").split())
            name = one["document_name"]
            sources[f"- [{places[one['number']]}] {name}{page}: {quoted}".rstrip(": ")] = None
    return [shown, *(("", "Sources:", "", *sources) if sources else ())]


def session_not_found(session_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no session with the id '{session_id}'.",
        hint="List the sessions: ragstone sessions list",
    )


def _is_owned(
    owner: str, collections: Sequence[str] | None, text: str = ""
) -> list[ColumnElement[bool]]:
    conditions = [sessions.c.owner == owner]
    if collections is not None:
        conditions.append(sessions.c.collection.in_(collections))
    if text:
        columns = (turns.c.question, turns.c.answer)
        in_turn = exists().where(*_own_turns, or_(*(_has_text(one, text) for one in columns)))
        conditions.append(or_(_has_text(sessions.c.title, text), in_turn))
    return conditions


def _has_text(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    return func.lower(column).contains(text.lower(), autoescape=True)


def _is_session(owner: str, session_id: str) -> tuple[ColumnElement[bool], ...]:
    return sessions.c.owner == owner, sessions.c.id == session_id


def _is_turn(owner: str, session_id: str) -> tuple[ColumnElement[bool], ...]:
    return turns.c.owner == owner, turns.c.session_id == session_id


def _read_turns(connection: Connection, owner: str, session_id: str) -> tuple[Turn, ...]:
    columns = [column for column in turns.c if column.name not in {"owner", "session_id"}]
    query = select(*columns).where(*_is_turn(owner, session_id)).order_by(turns.c.position)
    return tuple(Turn(**row._asdict()) for row in connection.execute(query))


def _to_session(row: Any) -> Session:
    fields = row._asdict()
    first = (fields.pop("first_question") or "")[:_TITLE_CHARS]
    return Session(**{**fields, "title": fields["title"] or first})
