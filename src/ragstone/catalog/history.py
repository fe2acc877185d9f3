"""Read and delete past queries and sessions; compute analytics and suggestions from them.

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

from sqlalchemy import Connection

from ragstone.catalog import journal
from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.feedback import (
    SqlConsents,
    SqlFeedback,
    delete_consent,
    delete_owner_feedback,
    summarise_feedback,
)
from ragstone.catalog.sessions import SqlSessions
from ragstone.filters import ANY_QUERY, HistoryFilter
from ragstone.protocols import Catalog
from ragstone.settings import JournalSettings
from ragstone.types import Session

Summary: TypeAlias = Mapping[str, Any]

MAX_ANALYSED = 50_000
"""Newest queries that analytics read; with more queries they are marked as incomplete."""
_MAX_LISTED = 20
_MAX_QUERIES_TO_SUGGEST = 1000
_DAY_S = 86_400


def compute_analytics(queries: Sequence[Summary]) -> dict[str, Any]:
    """Compute all figures from summaries of queries, newest first. Small talk is only counted."""
    searched = [one for one in queries if not _is_small_talk(one)]
    unanswered = [one for one in searched if one["status"] in ("abstained", "near")]
    answered = [one for one in searched if one["status"] == "answered"]
    ungrounded = [one for one in answered if not _figures(one).get("is_grounded")]
    degraded = Counter(name for one in queries for name in _figures(one).get("degraded", ()))
    costs = [cost for one in queries if (cost := _figures(one).get("cost_usd")) is not None]
    return {
        "queries": {
            "total": len(queries),
            "small_talk": len(queries) - len(searched),
            "answered": len(answered),
            "unanswered": len(unanswered),
            "ungrounded": len(ungrounded),
        },
        "per_day": _count_per_day(queries),
        "latency_ms": {
            "total": _summarise([_figures(one).get("total_ms", 0.0) for one in queries]),
            "stages": _summarise_stages(queries),
        },
        "unanswered": _group_questions(unanswered),
        "ungrounded": _group_questions(ungrounded),
        "slow": _list_slowest(queries),
        "documents": _count_documents(searched),
        "degraded": dict(degraded.most_common()),
        "tokens": {
            "input": sum(_figures(one).get("input_tokens", 0) for one in queries),
            "output": sum(_figures(one).get("output_tokens", 0) for one in queries),
        },
        "cost_usd": round(sum(costs), 6) if costs else None,
    }


def _is_small_talk(query: Summary) -> bool:
    # Before small talk had a status of its own, it was answered by the provider "none".
    return query["status"] == "conversational" or _figures(query).get("provider") == "none"


def _figures(query: Summary) -> Mapping[str, Any]:
    """Return a query's figures; empty for a query from before there were any."""
    return query["figures"] or {}


def _count_per_day(queries: Iterable[Summary]) -> list[dict[str, Any]]:
    days: dict[str, Counter[str]] = {}
    for query in queries:
        day = datetime.fromtimestamp(query["created_at"], UTC).date().isoformat()
        days.setdefault(day, Counter())[query["status"]] += 1
    return [
        {"day": day, "queries": count.total(), "unanswered": count["abstained"]}
        for day, count in sorted(days.items())
    ]


def _summarise_stages(queries: Iterable[Summary]) -> dict[str, dict[str, float]]:
    times_ms: dict[str, list[float]] = {}
    for query in queries:
        for stage, ms in _figures(query).get("stages", {}).items():
            times_ms.setdefault(stage, []).append(ms)
    return {stage: _summarise(values) for stage, values in times_ms.items()}


def _summarise(values: Sequence[float]) -> dict[str, float]:
    """Return the mean and percentiles of some values."""
    ordered = sorted(values) or [0.0]
    percentiles = {
        f"p{percent}": round(ordered[len(ordered) * percent // 100], 3) for percent in (50, 95, 99)
    }
    mean = round(sum(ordered) / len(ordered), 3)
    return {"count": len(values), "mean": mean, **percentiles}


def _group_questions(queries: Iterable[Summary]) -> list[dict[str, Any]]:
    """List the most frequent questions, then the newest; equal words are one question."""
    groups: dict[str, dict[str, Any]] = {}
    for query in queries:  # newest first
        key = _normalise(query["question"]) if query["question"] else query["id"]
        group = groups.setdefault(key, {**_identify(query), "count": 0})
        group["count"] += 1
    order = sorted(groups.values(), key=lambda one: (-one["count"], -one["created_at"]))
    return order[:_MAX_LISTED]


def _list_slowest(queries: Sequence[Summary]) -> list[dict[str, Any]]:
    listed = [{**_identify(one), "total_ms": _figures(one).get("total_ms", 0.0)} for one in queries]
    return sorted(listed, key=lambda one: -one["total_ms"])[:_MAX_LISTED]


def _identify(query: Summary) -> dict[str, Any]:
    return {
        "query_id": query["id"],
        "query": query["question"],
        "collection": query["collection"],
        "created_at": query["created_at"],
    }


def _count_documents(queries: Iterable[Summary]) -> list[dict[str, Any]]:
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    for query in queries:
        for document_id, name in _figures(query).get("documents", {}).items():
            counts[document_id] += 1
            names.setdefault(document_id, name)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"document_id": document_id, "name": names[document_id], "answers": count}
        for document_id, count in order[:_MAX_LISTED]
    ]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Suggest a text, with its origin."""

    text: str
    kind: Literal["history", "heading"]
    collection: str


def rank_suggestions(
    prefix: str,
    questions: Sequence[tuple[str, str]],
    headings: Iterable[tuple[str, str]],
    *,
    limit: int,
) -> list[Suggestion]:
    """Rank past questions (newest first) and headings, each a pair of text and collection.

    A text that begins with the prefix comes first, then one with a word that does; past questions
    come before headings, and frequent ones before the rest. An empty prefix matches all.
    """
    wanted = " ".join(prefix.casefold().split())
    counts = Counter(_normalise(text) for text, _ in questions)
    candidates = [
        *(Suggestion(text, "history", collection) for text, collection in questions),
        *(Suggestion(text, "heading", collection) for text, collection in headings),
    ]
    ranks: dict[str, tuple[int, bool, int, int]] = {}
    for position, one in enumerate(candidates):
        key, words = _normalise(one.text), " ".join(one.text.casefold().split())
        starts = words.startswith(wanted)
        if key not in ranks and (starts or f" {wanted}" in words):
            is_heading = one.kind == "heading"
            count = 0 if is_heading else counts[key]
            ranks[key] = (0 if starts else 1, is_heading, -count, position)
    return [candidates[rank[-1]] for rank in sorted(ranks.values())[:limit]]


def _normalise(text: str) -> str:
    """Make texts equal that differ only in case, spaces and final punctuation."""
    return " ".join(text.casefold().split()).rstrip("?!. ")


class History:
    """Read and delete past queries and sessions; the engine writes them."""

    def __init__(
        self,
        catalog: Catalog,
        options: JournalSettings,
        forget_answers: Callable[[], None] = lambda: None,
    ) -> None:
        self._catalog = catalog
        self._options = options
        self._forget_answers = forget_answers
        self.sessions = SqlSessions(catalog)
        self.consents = SqlConsents(catalog, options)
        self.feedback = SqlFeedback(catalog, self.consents)
        self._collections = SqlCollections(catalog)

    def queries(
        self, *, skip: int = 0, limit: int = 20, wanted: HistoryFilter = ANY_QUERY
    ) -> list[dict[str, Any]]:
        """List past queries, newest first, without their traces."""
        return self._catalog.queries(skip=skip, limit=limit, wanted=wanted)

    def count_queries(self, wanted: HistoryFilter = ANY_QUERY) -> int:
        with self._catalog.read_transaction() as connection:
            return journal.count_queries(connection, wanted)

    def query(self, query_id: str) -> dict[str, Any]:
        """Return one query in full, with its trace."""
        return self._catalog.query(query_id)

    def delete_query(self, query_id: str) -> None:
        self._catalog.query(query_id)
        self._catalog.delete_query(query_id)
        self._erase_deleted()

    def delete_queries(self, wanted: HistoryFilter) -> int:
        """Delete the queries that match; return how many."""
        count = self._catalog.delete_queries(wanted=wanted)
        if count:
            self._erase_deleted()
        return count

    def _erase_deleted(self) -> None:
        """Overwrite what was deleted, also where its answers are kept for other processes."""
        self._catalog.erase_deleted()
        self._forget_answers()

    def list_sessions(
        self,
        owner: str,
        *,
        skip: int = 0,
        limit: int = 100,
        collections: Sequence[str] | None = None,
        text: str = "",
    ) -> list[Session]:
        """List an owner's sessions, the one used last first; with `text` those that hold it."""
        return self.sessions.list_sessions(
            owner, skip=skip, limit=limit, collections=collections, text=text
        )

    def count_sessions(
        self, owner: str, collections: Sequence[str] | None = None, text: str = ""
    ) -> int:
        return self.sessions.count(owner, collections, text)

    def session_citations(self, owner: str, session_id: str) -> dict[str, list[dict[str, Any]]]:
        """Return the citations of each query of a session, by the query's id."""
        wanted = HistoryFilter(owner=owner, session_id=session_id)
        found = self.queries(limit=_MAX_QUERIES_TO_SUGGEST, wanted=wanted)
        return {one["query_id"]: one["citations"] for one in found}

    def session(self, owner: str, session_id: str) -> Session:
        """Return one session with its turns."""
        return self.sessions.get(owner, session_id)

    def rename_session(self, owner: str, session_id: str, title: str) -> None:
        """Give a session a title; an empty one stands for its first question."""
        self.sessions.rename(owner, session_id, title)

    def delete_session(self, owner: str, session_id: str) -> None:
        """Delete a session and its queries."""
        self.sessions.delete(owner, session_id)
        self._erase_deleted()

    def delete_owner(self, owner: str) -> tuple[int, int]:
        """Delete all that an owner asked and rated; return how many sessions and queries."""
        with self._catalog.write_transaction("sessions") as connection:
            counts = self._delete_owned(connection, owner)
        self._erase_deleted()
        return counts

    def withdraw_consent(self, owner: str) -> tuple[int, int]:
        """Withdraw the consent of an owner, and delete what was stored: as `delete_owner`."""
        self.consents.require_setting()
        with self._catalog.write_transaction("sessions") as connection:
            counts = self._delete_owned(connection, owner)
            delete_consent(connection, owner)
        self._erase_deleted()
        return counts

    def _delete_owned(self, connection: Connection, owner: str) -> tuple[int, int]:
        """Delete in one transaction, so that no answer is stored in between."""
        session_count = self.sessions.delete_all(owner)
        query_count = self._catalog.delete_queries(wanted=HistoryFilter(owner=owner))
        delete_owner_feedback(connection, owner)
        return session_count, query_count

    def delete_expired(self) -> None:
        """Delete queries and turns older than RETENTION_DAYS; 0 keeps all."""
        days = self._options.retention_days
        if days:
            count = self._catalog.delete_queries(older_than_days=days)
            if self.sessions.delete_expired(before=time.time() - _DAY_S * days) or count:
                self._erase_deleted()

    def queried_collections(self, owner: str | None) -> list[str]:
        """List the collections that an owner (None: anybody) has queried."""
        with self._catalog.read_transaction() as connection:
            return journal.list_collections(connection, owner)

    def analytics(self, wanted: HistoryFilter) -> dict[str, Any]:
        """Compute counts, latencies, problems and costs of the queries that match."""
        with self._catalog.read_transaction() as connection:
            queries = journal.list_summaries(connection, wanted, limit=MAX_ANALYSED)
            feedback = summarise_feedback(connection, wanted)
        return {
            "since": wanted.since,
            "complete": len(queries) < MAX_ANALYSED,
            **compute_analytics(queries),
            "feedback": feedback,
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
        """Suggest questions that were answered before, and headings of these collections."""
        with self._catalog.read_transaction() as connection:
            queries = journal.list_summaries(connection, wanted, limit=_MAX_QUERIES_TO_SUGGEST)
        questions = [
            (query["question"], query["collection"])
            for query in queries
            if query["question"]
            and query["status"] == "answered"
            and not _is_small_talk(query)
            and may_offer(query["collection"])
        ]
        headings = [
            (heading, name)
            for name in collections
            if may_offer(name)
            for heading in self._collections.find_headings(name, prefix, limit=limit)
        ]
        return rank_suggestions(prefix, questions, headings, limit=limit)
