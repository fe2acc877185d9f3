"""What Ragstone remembers and how it is forgotten: queries, sessions, and what they add up to.

async with Engine() as engine:
    engine.history.queries(limit=5)
    engine.history.delete_session("local", "holiday-plans")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ragstone.catalog import journal
from ragstone.catalog.analytics import MOST_LINES, Suggestion, analyse, suggest
from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.sessions import SqlSessions
from ragstone.protocols import Catalog
from ragstone.settings import JournalSettings
from ragstone.types import ANY_QUERY, HistoryFilter, Session

_SUGGESTED_FROM = 1000
_DAY_S = 86_400


class History:
    """Read and delete what was asked; the engine writes it."""

    def __init__(self, catalog: Catalog, options: JournalSettings) -> None:
        self._catalog = catalog
        self._options = options
        self.sessions = SqlSessions(catalog)
        self._collections = SqlCollections(catalog)
        self._headings: dict[str, tuple[int, list[str]]] = {}

    def queries(
        self, *, skip: int = 0, limit: int = 20, wanted: HistoryFilter = ANY_QUERY
    ) -> list[dict[str, Any]]:
        """Past queries, newest first, without their traces."""
        return self._catalog.queries(skip=skip, limit=limit, wanted=wanted)

    def query_count(self, wanted: HistoryFilter = ANY_QUERY) -> int:
        with self._catalog.reading() as connection:
            return journal.count(connection, wanted)

    def query(self, query_id: str) -> dict[str, Any]:
        """One query in full, with its trace."""
        return self._catalog.query(query_id)

    def delete_query(self, query_id: str) -> None:
        self._catalog.query(query_id)
        self._catalog.forget_query(query_id)
        self._catalog.scrub()

    def delete_queries(self, wanted: HistoryFilter) -> int:
        """Forget the queries that fit; how many there were."""
        gone = self._catalog.forget_queries(wanted=wanted)
        if gone:
            self._catalog.scrub()
        return gone

    def session_list(
        self, owner: str, *, skip: int = 0, limit: int = 100,
        collections: Sequence[str] | None = None,
    ) -> list[Session]:  # fmt: skip
        return self.sessions.listed(owner, skip=skip, limit=limit, collections=collections)

    def session_count(self, owner: str, collections: Sequence[str] | None = None) -> int:
        return self.sessions.count(owner, collections)

    def session(self, owner: str, session_id: str) -> Session:
        """One session with its turns."""
        return self.sessions.get(owner, session_id)

    def delete_session(self, owner: str, session_id: str) -> None:
        """Forget a conversation, and the queries that were asked in it."""
        self.sessions.delete(owner, session_id)
        self._catalog.scrub()

    def delete_owner(self, owner: str) -> tuple[int, int]:
        """Forget everything that somebody has asked; how many sessions and queries there were."""
        conversations = self.sessions.delete_all(owner)
        asked = self._catalog.forget_queries(wanted=HistoryFilter(owner=owner))
        self._catalog.scrub()
        return conversations, asked

    def expire(self) -> None:
        """Forget what is older than RETENTION_DAYS; 0 keeps all."""
        days = self._options.retention_days
        if days:
            gone = self._catalog.forget_queries(older_than_days=days)
            if self.sessions.expire(before=time.time() - _DAY_S * days) or gone:
                self._catalog.scrub()

    def collections_asked(self, owner: str | None) -> list[str]:
        """The collections in which somebody (None: anybody) has asked something."""
        with self._catalog.reading() as connection:
            return journal.collections_of(connection, owner)

    def analytics(self, wanted: HistoryFilter) -> dict[str, Any]:
        """What is asked, how well it is answered, and what it costs."""
        with self._catalog.reading() as connection:
            lines = journal.lines(connection, wanted, limit=MOST_LINES)
        return {
            "since": wanted.since,
            "complete": len(lines) < MOST_LINES,
            **analyse(lines),
        }

    def suggestions(
        self,
        prefix: str,
        *,
        wanted: HistoryFilter,
        collections: Iterable[str],
        limit: int = 8,
        may_offer: Callable[[str], bool] = lambda _: True,
    ) -> list[Suggestion]:
        """Questions that were answered before, and headings of these collections."""
        with self._catalog.reading() as connection:
            lines = journal.lines(connection, wanted, limit=_SUGGESTED_FROM)
        asked = [
            (line["question"], line["collection"])
            for line in lines
            if line["question"]
            and line["status"] == "answered"
            and (line["figures"] or {}).get("provider") != "none"
            and may_offer(line["collection"])
        ]
        headings = [
            (heading, name) for name in collections if may_offer(name)
            for heading in self._headings_of(name)
        ]  # fmt: skip
        return suggest(prefix, asked, headings, limit=limit)

    def _headings_of(self, collection: str) -> list[str]:
        """The headings of a collection, read again only after a change."""
        change = self._catalog.counts(collection).last_change
        held = self._headings.get(collection)
        if held is None or held[0] != change:
            paths = self._collections.headings(collection)
            # The header row of a table stands in its chunks' paths, and is no title.
            titles = dict.fromkeys(t for path in paths for t in path if " | " not in t)
            held = self._headings[collection] = (change, list(titles))
        return held[1]
