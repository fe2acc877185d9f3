"""Write and read the journal: one entry per query, as detailed as QUERY_LOG allows."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, exists, func, select

from ragstone.catalog.schema import evidence, feedback, split_batches
from ragstone.catalog.schema import queries as table
from ragstone.errors import InputError, NotFoundError
from ragstone.filters import HistoryFilter
from ragstone.protocols import Catalog
from ragstone.threads import PerLoop, run_in_thread
from ragstone.trace import WATERFALL, PackedEvidence, PackedTrace
from ragstone.types import LOCAL_OWNER, Answer, Citation

log = logging.getLogger(__name__)

# An answer waits this long for its entry, no longer; a server that stops waits this long for all.
_MAX_WAIT_S = 0.25
_MAX_FINISH_S = 5.0
LOCK = "journal"
"""Transactions that write the journal wait for each other, and for nobody else."""
_select_full = select(table, evidence.c.content).outerjoin(
    evidence, table.c.evidence == evidence.c.id
)


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one row of the journal, and the evidence it shares with repeats of the answer."""

    row: Mapping[str, Any]
    evidence: PackedEvidence


def build_entry(
    answer: Answer,
    *,
    query_log: str,
    owner: str = LOCAL_OWNER,
    session_id: str | None = None,
    upload_id: str | None = None,
) -> Entry:
    """Build the entry of an answer. QUERY_LOG `metadata` leaves out all texts."""
    full, shared = query_log == "full", pack_evidence(answer, query_log=query_log)
    trace = answer.trace.own if isinstance(answer.trace, PackedTrace) else dict(answer.trace)
    own = {name: value for name, value in trace.items() if name != WATERFALL}
    return Entry(
        {
            "id": answer.query_id,
            "collection": answer.collection,
            "created_at": answer.started_at,
            "status": answer.status,
            "question": answer.question if full else None,
            "answer": answer.text if full else None,
            "owner": owner,
            "session_id": session_id,
            "upload_id": upload_id,
            "figures": collect_figures(answer),
            "record": {
                "degraded": list(answer.degraded),
                "notes": list(answer.notes) if full else [],
                "trace": own if full else _remove_texts(own),
            },
            "evidence": shared.id,
        },
        shared,
    )


def pack_evidence(answer: Answer, *, query_log: str) -> PackedEvidence:
    """Pack the evidence of an answer: the same for each repeat of it, and packed only once."""
    if isinstance(answer.trace, PackedTrace):
        return answer.trace.evidence
    full = query_log == "full"
    return PackedEvidence.pack(
        {
            "citations": [_to_fields(citation, full=full) for citation in answer.citations],
            "used_chunks": [
                {
                    "chunk_id": source.hit.chunk.id,
                    "relevance_score": source.hit.score,
                    "retrieval_method": source.hit.method,
                }
                for source in answer.sources
            ],
            # Claims are sentences of the answer: without texts there are none.
            "claims": [dataclasses.asdict(claim) for claim in answer.claims] if full else [],
            "short_answer": answer.short_answer if full else "",
            "highlights": [list(span) for span in answer.highlights],
            "detected_intent": answer.detected_intent,
            "confidence": answer.confidence,
            "is_grounded": answer.is_grounded,
            "groundedness_score": answer.groundedness_score,
            "provider": answer.provider,
            "model": answer.model,
        },
        answer.trace.get(WATERFALL, {}),
    )


def write_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Insert entries, and their evidence where it is not stored yet."""
    missing = {one.evidence.id: one.evidence.content for one in entries}
    for part in split_batches(list(missing)):
        stored = select(evidence.c.id).where(evidence.c.id.in_(part))
        for stored_id in connection.scalars(stored):
            del missing[stored_id]
    if missing:
        rows = [{"id": name, "content": content} for name, content in missing.items()]
        connection.execute(evidence.insert(), rows)
    connection.execute(table.insert(), [one.row for one in entries])


def collect_figures(answer: Answer) -> dict[str, Any]:
    """Return the numbers and names of one query that analytics need, without its texts."""
    total = answer.total_usage
    return {
        "total_ms": answer.total_ms,
        "stages": dict(answer.timings),
        "is_grounded": answer.is_grounded,
        "confidence": answer.confidence,
        "degraded": list(answer.degraded),
        "intent": answer.detected_intent,
        "provider": answer.provider,
        "model": answer.model,
        "documents": {one.document_id: one.document_name for one in answer.citations},
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "cached_tokens": total.cached_tokens,
        "model_calls": len(answer.usage),
        "cost_usd": total.cost_usd,
    }


def delete_queries(connection: Connection, wanted: HistoryFilter) -> int:
    """Delete the queries that match; return how many."""
    count = connection.execute(table.delete().where(*to_conditions(wanted))).rowcount
    delete_orphans(connection)
    return count


def delete_query(connection: Connection, query_id: str) -> None:
    evidence_id = connection.scalar(select(table.c.evidence).where(table.c.id == query_id))
    connection.execute(table.delete().where(table.c.id == query_id))
    is_used = exists().where(table.c.evidence == evidence.c.id)
    connection.execute(evidence.delete().where(~is_used, evidence.c.id == evidence_id))
    connection.execute(feedback.delete().where(feedback.c.query_id == query_id))


def delete_orphans(connection: Connection) -> None:
    """Delete evidence and feedback without an entry. Call it after deleting entries."""
    is_used = exists().where(table.c.evidence == evidence.c.id)
    connection.execute(evidence.delete().where(~is_used))
    has_query = exists().where(table.c.id == feedback.c.query_id)
    connection.execute(feedback.delete().where(~has_query))


def list_queries(
    connection: Connection, *, skip: int, limit: int, wanted: HistoryFilter
) -> list[dict[str, Any]]:
    """List the queries that match, newest first.

    They have no trace: it is as long as all the other fields together.
    """
    newest = table.c.created_at.desc(), table.c.id
    query = _select_full.where(*to_conditions(wanted)).order_by(*newest)
    found = [_to_query(row) for row in connection.execute(query.offset(skip).limit(limit))]
    for one in found:
        del one["trace"]
    return found


def count_queries(connection: Connection, wanted: HistoryFilter) -> int:
    query = select(func.count()).select_from(table).where(*to_conditions(wanted))
    return connection.scalar(query) or 0


def read_query(connection: Connection, query_id: str) -> dict[str, Any]:
    row = connection.execute(_select_full.where(table.c.id == query_id)).first()
    if row is None:
        raise query_not_found(query_id)
    found = _to_query(row)
    return {**found, "trace": dict(found["trace"])}


def list_summaries(
    connection: Connection, wanted: HistoryFilter, *, limit: int
) -> list[Mapping[str, Any]]:
    """List the fields that analytics need of each query that matches, newest first."""
    names = ("id", "collection", "created_at", "status", "question", "figures")
    query = select(*(table.c[name] for name in names)).where(*to_conditions(wanted))
    newest = query.order_by(table.c.created_at.desc())
    return [row._asdict() for row in connection.execute(newest.limit(limit))]


def list_collections(connection: Connection, owner: str | None) -> list[str]:
    """List the collections that an owner (None: anybody) has queried."""
    query = select(table.c.collection).distinct()
    if owner is not None:
        query = query.where(table.c.owner == owner)
    return list(connection.scalars(query))


def query_not_found(query_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no query with the id '{query_id}'.",
        hint="List the queries: ragstone history",
    )


def to_conditions(wanted: HistoryFilter) -> list[ColumnElement[bool]]:
    """Return what a query of the journal must fulfil."""
    conditions = [
        table.c[name] == value
        for name in ("owner", "upload_id", "session_id")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.collections is not None:
        conditions.append(table.c.collection.in_(wanted.collections))
    if wanted.since is not None:
        conditions.append(table.c.created_at >= wanted.since)
    if wanted.before is not None:
        conditions.append(table.c.created_at < wanted.before)
    return conditions


def _remove_texts(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only the type of each error: a provider or database may quote the question in it."""
    spans = [
        {**span, "error": span["error"] and span["error"].partition(":")[0]}
        for span in trace.get("spans", ())
    ]
    return {**trace, "spans": spans}


def _to_fields(citation: Citation, *, full: bool) -> dict[str, Any]:
    fields = dataclasses.asdict(citation)
    if not full:
        del fields["snippet"]
    return fields


def _to_query(row: Any) -> dict[str, Any]:
    record = dict(row.record)
    if row.content is not None:  # None: written before schema 0007, with all fields in `record`
        shared = PackedEvidence(row.evidence, row.content)
        record["trace"] = PackedTrace(record["trace"], shared)
        record = {**shared.unpack_value(), **record}
    return {
        "query_id": row.id,
        "collection": row.collection,
        "upload_id": row.upload_id,
        "session_id": row.session_id,
        "owner": row.owner,
        "created_at": row.created_at,
        "status": row.status,
        "query": row.question,
        "answer": row.answer,
        "total_ms": (row.figures or {}).get("total_ms"),
        **record,
    }


_Batch: TypeAlias = list[tuple[Entry, "asyncio.Future[None]"]]


class JournalWriter:
    """Write the entries that wait at the same time in one transaction.

    A commit waits for the disk (2 ms and more). With one commit per answer the disk would limit
    the answers per second. A caller waits until its own entry is on the disk, but not for long:
    behind a slow or busy database the entry is written after the answer has gone out.
    """

    def __init__(
        self, catalog: Catalog, may_store: Callable[[Connection, str], bool] | None = None
    ) -> None:
        self._catalog = catalog
        self._may_store = may_store
        self._waiting: PerLoop[_Batch] = PerLoop(list)
        self._busy: PerLoop[set[str]] = PerLoop(set)
        # The event loop keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        self._unwritten: set[asyncio.Future[None]] = set()
        self.commits = 0

    async def write(self, entry: Entry) -> None:
        """Return when the entry is on the disk, or after a moment; it is written all the same.

        A cancelled caller does not stop the write.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._unwritten.add(done)
        done.add_done_callback(self._unwritten.discard)
        waiting = self._waiting.get()
        waiting.append((entry, done))
        if len(waiting) == 1 and not self._busy.get():
            task = loop.create_task(self._write_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.wait([done], timeout=_MAX_WAIT_S)
        if done.done():
            done.result()
        else:
            done.add_done_callback(_log_late_failure)

    async def finish(self, timeout_s: float = _MAX_FINISH_S) -> bool:
        """Wait for the entries of this event loop that are being written; False if some still are.

        Entries that come while it waits are not waited for.
        """
        loop = asyncio.get_running_loop()
        unwritten = [one for one in self._unwritten if one.get_loop() is loop]
        if not unwritten:
            return True
        _, late = await asyncio.wait(unwritten, timeout=timeout_s)
        return not late

    async def _write_waiting(self) -> None:
        busy, waiting = self._busy.get(), self._waiting.get()
        busy.add("writing")
        try:
            while waiting:
                batch = waiting[:]
                waiting.clear()
                await self._write_batch(batch)
        finally:
            busy.clear()

    async def _write_batch(self, batch: _Batch) -> None:
        failure: Exception | None = None
        try:
            await run_in_thread("journal", self._commit, [entry for entry, _ in batch])
        except InputError as error:
            if len(batch) > 1:  # one entry cannot be stored: only its own caller gets the error
                for one in batch:
                    await self._write_batch([one])
                return
            failure = error
        except Exception as error:  # noqa: BLE001  each caller gets the error
            failure = error
        for _, done in batch:
            if done.done():
                continue
            if failure is None:
                done.set_result(None)
            else:
                done.set_exception(failure)

    def _commit(self, entries: list[Entry]) -> None:
        self.commits += 1
        with self._catalog.write_transaction(LOCK) as connection:
            if self._may_store is not None:
                owners = {one.row["owner"] for one in entries}
                agreed = {owner for owner in owners if self._may_store(connection, owner)}
                entries = [one for one in entries if one.row["owner"] in agreed]
            if entries:
                write_entries(connection, entries)


def _log_late_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        log.warning("an answer was not stored: %s", type(done.exception()).__name__)
