"""What Ragstone remembers and how it is forgotten: queries, sessions, and what they add up to.

async with Engine() as engine:
    engine.history.queries(limit=5)
    engine.history.delete_session("local", "holiday-plans")
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from ragstone.catalog import journal
from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.sessions import SqlSessions
from ragstone.protocols import Catalog
from ragstone.settings import JournalSettings
from ragstone.types import ANY_QUERY, HistoryFilter, Session

Line: TypeAlias = Mapping[str, Any]

MOST_LINES = 50_000
"""Newest first; beyond this an analysis says that it saw only a part."""
_LISTED = 20


def analyse(lines: Sequence[Line]) -> dict[str, Any]:
    """Every figure from lines with `figures`; small talk counts as a query and nothing else."""
    asked = [line for line in lines if _figures(line).get("provider") != "none"]
    unanswered = [line for line in asked if line["status"] == "abstained"]
    answered = [line for line in asked if line["status"] == "answered"]
    ungrounded = [line for line in answered if not _figures(line).get("is_grounded")]
    degraded = Counter(name for line in lines for name in _figures(line).get("degraded", ()))
    costs = [cost for line in lines if (cost := _figures(line).get("cost_usd")) is not None]
    return {
        "queries": {
            "total": len(lines),
            "small_talk": len(lines) - len(asked),
            "answered": len(answered),
            "unanswered": len(unanswered),
            "ungrounded": len(ungrounded),
        },
        "per_day": _per_day(lines),
        "latency_ms": {
            "total": _spread([_figures(line).get("total_ms", 0.0) for line in lines]),
            "stages": _stages(lines),
        },
        "unanswered": _questions(unanswered),
        "ungrounded": _questions(ungrounded),
        "slow": _slow(lines),
        "documents": _documents(asked),
        "degraded": dict(degraded.most_common()),
        "tokens": {
            "input": sum(_figures(line).get("input_tokens", 0) for line in lines),
            "output": sum(_figures(line).get("output_tokens", 0) for line in lines),
        },
        "cost_usd": round(sum(costs), 6) if costs else None,
    }


def _figures(line: Line) -> Mapping[str, Any]:
    """Empty for a query that was asked before figures were kept."""
    return line["figures"] or {}


def _per_day(lines: Iterable[Line]) -> list[dict[str, Any]]:
    days: dict[str, Counter[str]] = {}
    for line in lines:
        day = datetime.fromtimestamp(line["created_at"], UTC).date().isoformat()
        days.setdefault(day, Counter())[line["status"]] += 1
    return [
        {"day": day, "queries": count.total(), "unanswered": count["abstained"]}
        for day, count in sorted(days.items())
    ]


def _stages(lines: Iterable[Line]) -> dict[str, dict[str, float]]:
    took: dict[str, list[float]] = {}
    for line in lines:
        for stage, ms in _figures(line).get("stages", {}).items():
            took.setdefault(stage, []).append(ms)
    return {stage: _spread(values) for stage, values in took.items()}


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {"count": 0, "mean": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0}
    ordered = sorted(values)

    def rank(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    mean = round(sum(ordered) / len(ordered), 3)
    return {"count": len(ordered), "mean": mean, "p50": rank(0.5), "p95": rank(0.95),
            "p99": rank(0.99)}  # fmt: skip


def _questions(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Those asked most often first, then the newest; the same words are one question."""
    groups: dict[str, dict[str, Any]] = {}
    for line in lines:  # newest first
        text = line["question"]
        same = " ".join(text.casefold().split()).rstrip("?!. ") if text else line["id"]
        group = groups.setdefault(same, {**_named(line), "count": 0})
        group["count"] += 1
    return sorted(groups.values(), key=lambda one: (-one["count"], -one["created_at"]))[:_LISTED]


def _slow(lines: Sequence[Line]) -> list[dict[str, Any]]:
    order = sorted(lines, key=lambda line: -_figures(line).get("total_ms", 0.0))
    return [{**_named(line), "total_ms": _figures(line).get("total_ms", 0.0)}
            for line in order[:_LISTED]]  # fmt: skip


def _named(line: Line) -> dict[str, Any]:
    return {
        "query_id": line["id"],
        "query": line["question"],
        "collection": line["collection"],
        "created_at": line["created_at"],
    }


def _documents(lines: Iterable[Line]) -> list[dict[str, Any]]:
    used: Counter[str] = Counter()
    names: dict[str, str] = {}
    for line in lines:
        for document_id, name in _figures(line).get("documents", {}).items():
            used[document_id] += 1
            names.setdefault(document_id, name)
    order = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    return [{"document_id": document_id, "name": names[document_id], "answers": count}
            for document_id, count in order[:_LISTED]]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text to offer, and where it is from."""

    text: str
    kind: Literal["history", "heading"]
    collection: str


def suggest(
    prefix: str,
    asked: Sequence[tuple[str, str]],
    headings: Iterable[tuple[str, str]],
    *,
    limit: int,
) -> list[Suggestion]:
    """`asked` (newest first) and `headings` are pairs of text and collection.

    A past question comes before a heading, a text that begins with the prefix before one that has
    it inside, and what was asked more often before the rest. Without a prefix: what is asked most.
    """
    wanted = " ".join(prefix.casefold().split())
    times = Counter(_same(text) for text, _ in asked)
    ranked: list[tuple[tuple[int, int, int, int], Suggestion]] = []
    seen: set[str] = set()
    offered = [
        *(Suggestion(text, "history", collection) for text, collection in asked),
        *(Suggestion(text, "heading", collection) for text, collection in headings),
    ]
    for place, one in enumerate(offered):
        match = _match(wanted, one.text)
        if match is None or _same(one.text) in seen:
            continue
        seen.add(_same(one.text))
        is_heading = one.kind == "heading"
        rank = (match, int(is_heading), 0 if is_heading else -times[_same(one.text)], place)
        ranked.append((rank, one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])[:limit]]


def _match(wanted: str, text: str) -> int | None:
    """0: it begins with the prefix; 1: one of its words does; None: neither."""
    spoken = " ".join(text.casefold().split())
    if spoken.startswith(wanted):
        return 0
    return 1 if f" {wanted}" in spoken else None


def _same(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("?!. ")


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
