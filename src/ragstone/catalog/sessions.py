"""Conversations in the catalog's own database: they survive a restart, each with its owner."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from ragstone.catalog.journal import drop_unused
from ragstone.catalog.schema import queries, sessions, turns
from ragstone.catalog.uploads import Transactions
from ragstone.errors import NotFoundError
from ragstone.types import Session, Turn

_TITLE_CHARS = 80

_here = (turns.c.owner == sessions.c.owner, turns.c.session_id == sessions.c.id)
_turn_count = (
    select(func.count()).where(*_here).correlate(sessions).scalar_subquery().label("turn_count")
)
_first_question = (
    select(turns.c.question)
    .where(*_here)
    .order_by(turns.c.position)
    .limit(1)
    .correlate(sessions)
    .scalar_subquery()
    .label("first_question")
)


class SqlSessions:
    """The tables `sessions` and `turns`."""

    def __init__(self, catalog: Transactions) -> None:
        self._catalog = catalog

    def find(self, owner: str, session_id: str) -> Session | None:
        """A session with its turns, or None."""
        with self._catalog.reading() as connection:
            row = connection.execute(select(sessions).where(*_is(owner, session_id))).first()
            return None if row is None else _session(row, _turns(connection, owner, session_id))

    def get(self, owner: str, session_id: str) -> Session:
        found = self.find(owner, session_id)
        if found is None:
            raise no_session(session_id)
        return found

    def listed(
        self, owner: str, *, skip: int = 0, limit: int = 100, collections: Sequence[str] | None
    ) -> list[Session]:
        """An owner's sessions without their turns, the one used last first."""
        query = select(sessions, _turn_count, _first_question).where(*_of(owner, collections))
        latest = sessions.c.updated_at.desc(), sessions.c.id
        with self._catalog.reading() as connection:
            found = connection.execute(query.order_by(*latest).offset(skip).limit(limit))
            return [_summary(row) for row in found]

    def count(self, owner: str, collections: Sequence[str] | None) -> int:
        query = select(func.count()).select_from(sessions).where(*_of(owner, collections))
        with self._catalog.reading() as connection:
            return connection.scalar(query) or 0

    def collections(self, owner: str) -> list[str]:
        """What an owner's sessions are about."""
        query = select(sessions.c.collection).where(sessions.c.owner == owner).distinct()
        with self._catalog.reading() as connection:
            return list(connection.scalars(query))

    def add(
        self, owner: str, session_id: str, collection: str, turn: Turn, *, kept_turns: int
    ) -> None:
        """Put a turn at the end; a session begins with its first one."""
        now = time.time()
        of_session = (turns.c.owner == owner, turns.c.session_id == session_id)
        with self._catalog.transaction() as connection:
            changed = connection.execute(
                sessions.update().where(*_is(owner, session_id)).values(updated_at=now)
            ).rowcount
            if not changed:
                connection.execute(
                    sessions.insert().values(
                        owner=owner, id=session_id, collection=collection, created_at=now,
                        updated_at=now, summary="", summarised=0,
                    )
                )  # fmt: skip
            last = connection.scalar(select(func.max(turns.c.position)).where(*of_session))
            position = 0 if last is None else last + 1
            connection.execute(
                turns.insert().values(
                    owner=owner, session_id=session_id, position=position, query_id=turn.query_id,
                    question=turn.question, answer=turn.answer, status=turn.status,
                    intent=turn.intent, created_at=turn.created_at,
                )
            )  # fmt: skip
            too_old = turns.c.position <= position - kept_turns
            connection.execute(turns.delete().where(*of_session, too_old))

    def summarise(self, owner: str, session_id: str, summary: str, *, before: int) -> None:
        """Let a summary stand for the turns before a position."""
        with self._catalog.transaction() as connection:
            connection.execute(
                sessions.update()
                .where(*_is(owner, session_id))
                .values(summary=summary, summarised=before)
            )

    def delete(self, owner: str, session_id: str) -> None:
        """Remove a session, and from the journal every query that was asked in it."""
        with self._catalog.transaction() as connection:
            gone = connection.execute(sessions.delete().where(*_is(owner, session_id))).rowcount
            if not gone:
                raise no_session(session_id)
            connection.execute(
                turns.delete().where(turns.c.owner == owner, turns.c.session_id == session_id)
            )
            connection.execute(
                queries.delete().where(queries.c.owner == owner, queries.c.session_id == session_id)
            )
            drop_unused(connection)

    def delete_all(self, owner: str) -> int:
        """Every session of an owner; how many there were."""
        with self._catalog.transaction() as connection:
            connection.execute(turns.delete().where(turns.c.owner == owner))
            return connection.execute(sessions.delete().where(sessions.c.owner == owner)).rowcount

    def expire(self, *, before: float) -> bool:
        """Remove turns that are older, and sessions that nobody has used since; was there any?"""
        old = select(turns.c.owner, turns.c.session_id).where(turns.c.created_at < before)
        with self._catalog.transaction() as connection:
            for row in connection.execute(old.distinct()).all():
                # Its summary may hold what expires; it is made again from what is left.
                here = _is(row.owner, row.session_id)
                connection.execute(sessions.update().where(*here).values(summary="", summarised=0))
            gone = connection.execute(turns.delete().where(turns.c.created_at < before)).rowcount
            connection.execute(sessions.delete().where(sessions.c.updated_at < before))
            return bool(gone)


def delete_of_collection(connection: Connection, collection: str) -> None:
    """The sessions about a collection that is being removed."""
    about = select(sessions.c.owner, sessions.c.id).where(sessions.c.collection == collection)
    for row in connection.execute(about).all():
        connection.execute(
            turns.delete().where(turns.c.owner == row.owner, turns.c.session_id == row.id)
        )
    connection.execute(sessions.delete().where(sessions.c.collection == collection))


def no_session(session_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no session with the id '{session_id}'.",
        hint="List the sessions with: ragstone sessions list",
    )


def _of(owner: str, collections: Sequence[str] | None) -> list[ColumnElement[bool]]:
    wanted = [sessions.c.owner == owner]
    if collections is not None:
        wanted.append(sessions.c.collection.in_(collections))
    return wanted


def _is(owner: str, session_id: str) -> tuple[Any, Any]:
    return sessions.c.owner == owner, sessions.c.id == session_id


def _turns(connection: Connection, owner: str, session_id: str) -> tuple[Turn, ...]:
    query = (
        select(*[column for column in turns.c if column.name not in {"owner", "session_id"}])
        .where(turns.c.owner == owner, turns.c.session_id == session_id)
        .order_by(turns.c.position)
    )
    return tuple(Turn(**row._asdict()) for row in connection.execute(query))


def _session(row: Any, found: tuple[Turn, ...]) -> Session:
    title = found[0].question[:_TITLE_CHARS] if found else ""
    return Session(**row._asdict(), turns=found, turn_count=len(found), title=title)


def _summary(row: Any) -> Session:
    fields = row._asdict()
    title = (fields.pop("first_question") or "")[:_TITLE_CHARS]
    return Session(**fields, title=title)
