"""Store how users rate answers, and whether they agree that what they ask is stored.

A rating belongs to the query of the journal that it is about, and is deleted with it. Rated answers
become questions of an evaluation. A consent (REQUIRE_CONSENT) belongs to the owner of a key and to
the settings that were shown. It is checked in the transaction that writes: a question that was
running when its user withdrew is not stored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from ragstone.catalog import journal
from ragstone.catalog.schema import consents, documents, feedback, queries, turns
from ragstone.errors import InputError, NotFoundError
from ragstone.filters import HistoryFilter
from ragstone.protocols import Catalog
from ragstone.settings import JournalSettings

_LEVELS = ("off", "metadata", "full")


@dataclass(frozen=True, slots=True)
class Consent:
    """State when somebody agreed, and to which settings of the journal."""

    owner: str
    agreed_at: float
    query_log: str
    retention_days: int

    def covers(self, options: JournalSettings) -> bool:
        """Return False when more is stored now, or for longer, than was agreed to."""
        is_enough = _LEVELS.index(self.query_log) >= _LEVELS.index(options.query_log)
        days = options.retention_days
        return is_enough and (not self.retention_days or 0 < days <= self.retention_days)


def describe_storage(options: JournalSettings) -> str:
    """Say in one sentence what is stored of a user, and for how long."""
    if options.query_log == "off":
        return "Nothing that you ask is stored."
    days = options.retention_days
    time_limit = (
        "until you delete them" if not days else "for 1 day" if days == 1 else f"for {days} days"
    )
    if options.query_log == "metadata":
        return (
            "The time of each question, its figures and the documents of its answer are stored "
            f"{time_limit}; no text of question or answer."
        )
    return f"Your questions, their answers and your conversations are stored {time_limit}."


class SqlConsents:
    """Read and write the table `consents`."""

    def __init__(self, catalog: Catalog, options: JournalSettings) -> None:
        self._catalog = catalog
        self.options = options

    @property
    def is_required(self) -> bool:
        return self.options.require_consent and self.options.query_log != "off"

    def find(self, owner: str) -> Consent | None:
        """Return the consent of an owner, if it covers what is stored now."""
        with self._catalog.read_transaction() as connection:
            return self._read(connection, owner)

    def may_store(self, connection: Connection, owner: str) -> bool:
        """Check inside a transaction if something of an owner may be written."""
        return not self.is_required or self._read(connection, owner) is not None

    def agree(self, owner: str) -> Consent:
        """Store the consent of an owner to the settings of now; one that is valid stays."""
        self.require_setting()
        with self._catalog.write_transaction() as connection:
            if known := self._read(connection, owner):
                return known
            options = self.options
            given = Consent(owner, time.time(), options.query_log, options.retention_days)
            delete_consent(connection, owner)
            connection.execute(consents.insert().values(asdict(given)))
            return given

    def require_setting(self) -> None:
        """Refuse to agree or to withdraw where nobody is asked."""
        if not self.is_required:
            raise InputError(
                "This installation does not ask for consent.",
                hint="Set REQUIRE_CONSENT=true to ask; delete what is stored with "
                "`ragstone sessions delete --all` or DELETE /v1/sessions.",
            )

    def _read(self, connection: Connection, owner: str) -> Consent | None:
        row = connection.execute(select(consents).where(consents.c.owner == owner)).first()
        found = Consent(**row._asdict()) if row else None
        return found if found and found.covers(self.options) else None


def delete_consent(connection: Connection, owner: str) -> None:
    connection.execute(consents.delete().where(consents.c.owner == owner))


Vote: TypeAlias = Literal["up", "down"]
MAX_COMMENT_CHARS = 4000
MAX_EXPORTED = 10_000
_MARKER = re.compile(r"\s*\[Source \d+\]")
_GOOD = 4


@dataclass(frozen=True, slots=True)
class Feedback:
    """Hold what one user thinks of one answer.

    Example:

        import asyncio
        from ragstone import Engine

        async def main() -> None:
            async with Engine() as engine:
                await engine.ingest(["contracts/"])
                answer = await engine.ask("How much is the rent?")
                given = engine.rate(answer.query_id, vote="down", comment="This is the old rent.")
                print(given.vote, given.rating, given.comment)

        asyncio.run(main())
    """

    query_id: str
    owner: str
    vote: Vote | None = None
    rating: int | None = None
    """1 (bad) to 5 (good)."""
    comment: str = ""
    created_at: float = 0.0


class SqlFeedback:
    """Read and write the table `feedback`."""

    def __init__(self, catalog: Catalog, consents: SqlConsents) -> None:
        self._catalog = catalog
        self._consents = consents

    def save(
        self, query_id: str, owner: str, vote: Vote | None, rating: int | None, comment: str
    ) -> Feedback:
        """Store the rating of an answer in place of an earlier one by the same owner."""
        given = Feedback(query_id, owner, vote, rating, comment.strip(), time.time())
        _check(given, self._consents.options.query_log)
        with self._catalog.write_transaction(journal.LOCK) as connection:
            self.require_storage(owner)
            if connection.scalar(select(queries.c.id).where(queries.c.id == query_id)) is None:
                raise journal.query_not_found(query_id)
            connection.execute(feedback.delete().where(*_is_rating(query_id, owner)))
            connection.execute(feedback.insert().values(asdict(given)))
        return given

    def require_storage(self, owner: str) -> None:
        """Refuse a rating where no answer is stored that it could be about."""
        if self._consents.options.query_log == "off":
            raise InputError(
                "Answers are not stored (QUERY_LOG=off), so they cannot be rated.",
                hint="Set QUERY_LOG to metadata (ratings without comments) or full.",
            )
        with self._catalog.read_transaction() as connection:
            if not self._consents.may_store(connection, owner):
                raise InputError(
                    "Nothing of you is stored before you agree, so no answer can be rated.",
                    hint="Agree with `ragstone consent give` or POST /v1/consent.",
                )

    def find(self, query_id: str, owner: str) -> Feedback:
        with self._catalog.read_transaction() as connection:
            row = connection.execute(select(feedback).where(*_is_rating(query_id, owner))).first()
        if row is None:
            raise _not_rated(query_id)
        return Feedback(**row._asdict())

    def delete(self, query_id: str, owner: str) -> None:
        with self._catalog.write_transaction(journal.LOCK) as connection:
            if not connection.execute(
                feedback.delete().where(*_is_rating(query_id, owner))
            ).rowcount:
                raise _not_rated(query_id)
        self._catalog.erase_deleted()

    def list_rated(
        self, wanted: HistoryFilter, rated_by: str | None, *, skip: int, limit: int
    ) -> list[dict[str, Any]]:
        """List ratings with the question and its answer, newest first."""
        query = _select_rated(wanted, rated_by).order_by(
            feedback.c.created_at.desc(), feedback.c.query_id
        )
        with self._catalog.read_transaction() as connection:
            return [
                dict(row) for row in connection.execute(query.offset(skip).limit(limit)).mappings()
            ]

    def count(self, wanted: HistoryFilter, rated_by: str | None) -> int:
        query = select(func.count()).select_from(_select_rated(wanted, rated_by).subquery())
        with self._catalog.read_transaction() as connection:
            return connection.scalar(query) or 0

    def list_questions(self, wanted: HistoryFilter, rated_by: str | None) -> list[dict[str, Any]]:
        """Return rated questions as lines of a file that `ragstone eval` reads.

        A good answer is the reference, with what it cites; a good "not in the documents" makes the
        question unanswerable. Other questions come without a reference, for a person to add it.
        """
        with self._catalog.read_transaction() as connection:
            query = _select_rated(wanted, rated_by).order_by(feedback.c.created_at.desc())
            rated = [dict(row) for row in connection.execute(query.limit(MAX_EXPORTED)).mappings()]
            _refuse_several_collections(rated)
            newest: dict[str, dict[str, Any]] = {}
            for one in rated:
                if one["query"] and one["status"] not in ("conversational", "refused"):
                    newest.setdefault(" ".join(one["query"].casefold().split()), one)
            return [_build_line(connection, one) for one in newest.values()]


def summarise_feedback(connection: Connection, wanted: HistoryFilter) -> dict[str, Any]:
    """Count the ratings of the queries that match, and compute the mean of those from 1 to 5."""
    rated = _select_rated(wanted, None).subquery()
    row = connection.execute(
        select(
            func.count(),
            func.count().filter(rated.c.vote == "up"),
            func.count().filter(rated.c.vote == "down"),
            func.count().filter(rated.c.comment != ""),
            func.avg(rated.c.rating),
        ).select_from(rated)
    ).one()
    names = ("count", "up", "down", "comments")
    mean = None if row[4] is None else round(float(row[4]), 3)
    return {**dict(zip(names, row[:4], strict=True)), "mean_rating": mean}


def delete_owner_feedback(connection: Connection, owner: str) -> None:
    """Delete the ratings by an owner, also those of other users' answers."""
    connection.execute(feedback.delete().where(feedback.c.owner == owner))


def _check(given: Feedback, query_log: str) -> None:
    if given.comment and query_log == "metadata":
        raise InputError(
            "A comment is text, and QUERY_LOG=metadata stores no text.",
            hint="Send vote or rating without a comment.",
        )
    if given.vote is None and given.rating is None and not given.comment:
        raise InputError(
            "The feedback is empty.", hint="Give a vote (up or down), a rating or a comment."
        )
    if given.vote not in (None, "up", "down"):
        raise InputError(f"Invalid vote '{given.vote}'.", hint="Use up or down.")
    if given.rating is not None and not 1 <= given.rating <= 5:
        raise InputError(f"Invalid rating {given.rating}.", hint="Use 1 (bad) to 5 (good).")
    if len(given.comment) > MAX_COMMENT_CHARS:
        raise InputError(
            f"The comment has {len(given.comment):,} characters; at most {MAX_COMMENT_CHARS:,} "
            "are stored.",
            hint="Write a shorter one.",
        )


def _is_rating(query_id: str, owner: str) -> tuple[ColumnElement[bool], ...]:
    return feedback.c.query_id == query_id, feedback.c.owner == owner


def _not_rated(query_id: str) -> NotFoundError:
    return NotFoundError(
        f"You have not rated the query '{query_id}'.", hint="List your ratings: ragstone feedback"
    )


def _select_rated(wanted: HistoryFilter, rated_by: str | None) -> Select[Any]:
    """Select ratings with the query that they are about, and the question that was searched."""
    is_turn = and_(
        turns.c.owner == queries.c.owner,
        turns.c.session_id == queries.c.session_id,
        turns.c.query_id == queries.c.id,
    )
    query = (
        select(
            feedback.c.query_id,
            feedback.c.owner,
            feedback.c.vote,
            feedback.c.rating,
            feedback.c.comment,
            feedback.c.created_at,
            queries.c.collection,
            queries.c.session_id,
            queries.c.status,
            queries.c.question.label("query"),
            queries.c.answer,
            func.coalesce(turns.c.searched_as, "").label("searched_as"),
        )
        .join(queries, queries.c.id == feedback.c.query_id)
        .outerjoin(turns, is_turn)
        .where(*journal.to_conditions(wanted))
    )
    return query if rated_by is None else query.where(feedback.c.owner == rated_by)


def _refuse_several_collections(rated: Iterable[Mapping[str, Any]]) -> None:
    names = sorted({one["collection"] for one in rated})
    if len(names) > 1:
        raise InputError(
            f"The rated answers are about {len(names)} collections: {', '.join(names)}.",
            hint="An evaluation searches one collection: choose it with --collection.",
        )


def _build_line(connection: Connection, rated: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: rated[name] for name in ("vote", "rating", "comment") if rated[name]}
    line = {"id": rated["query_id"], "question": rated["searched_as"] or rated["query"], **given}
    if not _is_good(rated):
        return line | {"rejected_answer": _MARKER.sub("", rated["answer"] or "")}
    if rated["status"] in ("abstained", "near"):
        return line | {"answerable": False}
    entry = journal.read_query(connection, rated["query_id"])
    texts = (entry.get("short_answer", ""), _MARKER.sub("", rated["answer"] or ""))
    cited = _keep_current(connection, rated["collection"], entry["citations"])
    return line | {
        "answers": list(dict.fromkeys(text for text in texts if text)),
        "documents": list(dict.fromkeys(one["document_name"] for one in cited)),
        "evidence": list(dict.fromkeys(one["snippet"] for one in cited)),
    }


def _is_good(rated: Mapping[str, Any]) -> bool:
    return bool(rated["vote"] == "up" or (not rated["vote"] and (rated["rating"] or 0) >= _GOOD))


def _keep_current(
    connection: Connection, collection: str, citations: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Leave out citations of documents that were deleted or replaced: no search finds them."""
    ids = {one["document_id"] for one in citations}
    found = select(documents.c.id).where(
        documents.c.collection == collection,
        documents.c.id.in_(ids),
        documents.c.retired_at.is_(None),
    )
    current = set(connection.scalars(found))
    return [one for one in citations if one["document_id"] in current]
