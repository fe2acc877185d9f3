"""The journal: one line for every query, with as much of it as QUERY_LOG allows."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, exists, func, select

from ragstone.catalog.schema import evidence
from ragstone.catalog.schema import queries as table
from ragstone.errors import InputError, NotFoundError
from ragstone.protocols import Catalog
from ragstone.threads import PerLoop
from ragstone.trace import WATERFALL, Packed, PackedTrace
from ragstone.types import LOCAL_OWNER, Answer, Citation, HistoryFilter, Source

# What a list of queries leaves out: the trace of each is as long as all the rest together.
_SUMMARY_WITHOUT = frozenset({"trace"})
_MOST_BOUND = 500
_whole = select(table, evidence.c.content).outerjoin(evidence, table.c.evidence == evidence.c.id)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal, and what it shares with every other giving of the same answer."""

    row: Mapping[str, Any]
    evidence: Packed


def entry(
    answer: Answer,
    *,
    query_log: str,
    owner: str = LOCAL_OWNER,
    session_id: str | None = None,
    upload_id: str | None = None,
) -> Entry:
    """An answer as a line; with `metadata` without any text of question, answer or document."""
    full, shared = query_log == "full", evidence_of(answer, query_log=query_log)
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
            "figures": figures(answer),
            "record": {
                "degraded": list(answer.degraded),
                "trace": own if full else _without_text(own),
            },
            "evidence": shared.id,
        },
        shared,
    )


def evidence_of(answer: Answer, *, query_log: str) -> Packed:
    """What an answer rests on: the same for each repeat of it, and packed only once."""
    if isinstance(answer.trace, PackedTrace):
        return answer.trace.evidence
    full = query_log == "full"
    return Packed.of(
        {
            "citations": [_citation(citation, full=full) for citation in answer.citations],
            "used_chunks": [used_chunk(source) for source in answer.sources],
            "confidence": answer.confidence,
            "is_grounded": answer.is_grounded,
            "groundedness_score": answer.groundedness_score,
            "provider": answer.provider,
            "model": answer.model,
        },
        answer.trace.get(WATERFALL, {}),
    )


def write(connection: Connection, entries: Sequence[Entry]) -> None:
    """Write lines down, and what they share as far as it is not there yet."""
    shared = {one.evidence.id: one.evidence.content for one in entries}
    wanted = list(shared)
    for begin in range(0, len(wanted), _MOST_BOUND):
        part = evidence.c.id.in_(wanted[begin : begin + _MOST_BOUND])
        for known in connection.scalars(select(evidence.c.id).where(part)):
            del shared[known]
    if shared:
        rows = [{"id": name, "content": content} for name, content in shared.items()]
        connection.execute(evidence.insert(), rows)
    connection.execute(table.insert(), [one.row for one in entries])


def figures(answer: Answer) -> dict[str, Any]:
    """Return what analytics need of one query: numbers and names, no text."""
    costs = [one.cost_usd for one in answer.usage if one.cost_usd is not None]
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
        "input_tokens": sum(one.input_tokens for one in answer.usage),
        "output_tokens": sum(one.output_tokens for one in answer.usage),
        "cost_usd": sum(costs) if costs else None,
    }


def forget(connection: Connection, wanted: HistoryFilter) -> int:
    """Remove what fits; how many there were."""
    gone = connection.execute(table.delete().where(*_conditions(wanted))).rowcount
    drop_unused(connection)
    return gone


def forget_one(connection: Connection, query_id: str) -> None:
    shared = connection.scalar(select(table.c.evidence).where(table.c.id == query_id))
    connection.execute(table.delete().where(table.c.id == query_id))
    drop_unused(connection, evidence.c.id == shared)


def drop_unused(connection: Connection, *which: ColumnElement[bool]) -> None:
    """Remove what no line of the journal rests on any more. Whoever removes lines calls it."""
    needed = exists().where(table.c.evidence == evidence.c.id)
    connection.execute(evidence.delete().where(~needed, *which))


def queries(
    connection: Connection, *, skip: int, limit: int, wanted: HistoryFilter
) -> list[dict[str, Any]]:
    """Newest first, each without its trace."""
    newest = table.c.created_at.desc(), table.c.id
    query = _whole.where(*_conditions(wanted)).order_by(*newest)
    rows = connection.execute(query.offset(skip).limit(limit))
    return [
        {name: value for name, value in _entry(row).items() if name not in _SUMMARY_WITHOUT}
        for row in rows
    ]


def count(connection: Connection, wanted: HistoryFilter) -> int:
    """How many queries fit."""
    query = select(func.count()).select_from(table).where(*_conditions(wanted))
    return connection.scalar(query) or 0


def query(connection: Connection, query_id: str) -> dict[str, Any]:
    row = connection.execute(_whole.where(table.c.id == query_id)).first()
    if row is None:
        raise no_query(query_id)
    entry = _entry(row)
    return {**entry, "trace": dict(entry["trace"])}


def lines(connection: Connection, wanted: HistoryFilter, *, limit: int) -> list[Mapping[str, Any]]:
    """The short form of each query that fits, newest first: what analytics add up."""
    columns = (
        table.c.id, table.c.collection, table.c.created_at, table.c.status, table.c.question,
        table.c.figures,
    )  # fmt: skip
    query = select(*columns).where(*_conditions(wanted)).order_by(table.c.created_at.desc())
    return [row._asdict() for row in connection.execute(query.limit(limit))]


def collections_of(connection: Connection, owner: str | None) -> list[str]:
    """The collections in which somebody has asked something."""
    query = select(table.c.collection).distinct()
    if owner is not None:
        query = query.where(table.c.owner == owner)
    return list(connection.scalars(query))


def no_query(query_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no query with the id '{query_id}'.",
        hint="List the queries with: ragstone history",
    )


def used_chunk(source: Source) -> dict[str, Any]:
    return {
        "chunk_id": source.hit.chunk.id,
        "relevance_score": source.hit.score,
        "retrieval_method": source.hit.method,
    }


def _conditions(wanted: HistoryFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for name in ("owner", "upload_id", "session_id"):
        value = getattr(wanted, name)
        if value is not None:
            found.append(table.c[name] == value)
    if wanted.collections is not None:
        found.append(table.c.collection.in_(wanted.collections))
    if wanted.since is not None:
        found.append(table.c.created_at >= wanted.since)
    if wanted.before is not None:
        found.append(table.c.created_at < wanted.before)
    return found


def _without_text(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A failure by its kind alone: a provider or a database may quote the question in its words."""
    spans = [
        {**span, "error": span["error"] and span["error"].partition(":")[0]}
        for span in trace.get("spans", ())
    ]
    return {**trace, "spans": spans}


def _citation(citation: Citation, *, full: bool) -> dict[str, Any]:
    fields = dataclasses.asdict(citation)
    if not full:
        del fields["snippet"]
    return fields


def _entry(row: Any) -> dict[str, Any]:
    record = dict(row.record)
    if row.content is not None:  # None: written before schema 0007, all of it in the record
        shared = Packed(row.evidence, row.content)
        record["trace"] = PackedTrace(record["trace"], shared)
        record = {**shared.value(), **record}
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


_Waiting: TypeAlias = list[tuple[Entry, "asyncio.Future[None]"]]


class JournalWriter:
    """Write the lines that wait at the same moment in one transaction.

    A commit waits for the disk (2 ms and more). With one for each answer the disk would decide how
    many answers a second there are; every caller still waits until its own is safe.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._waiting: PerLoop[_Waiting] = PerLoop(list)
        self._busy: PerLoop[set[str]] = PerLoop(set)
        # A task that nothing refers to may be collected before it ends.
        self._tasks: set[asyncio.Task[None]] = set()
        self.commits = 0

    async def write(self, entry: Entry) -> None:
        """Return when the entry is safe. Whoever stops waiting stops nothing: others wait too."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting.get()
        waiting.append((entry, done))
        if len(waiting) == 1 and not self._busy.get():
            task = loop.create_task(self._write_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await done

    async def _write_waiting(self) -> None:
        busy, waiting = self._busy.get(), self._waiting.get()
        busy.add("writing")
        try:
            while waiting:
                batch = waiting[:]
                waiting.clear()
                await self._written(batch)
        finally:
            busy.clear()

    async def _written(self, batch: _Waiting) -> None:
        failure: Exception | None = None
        try:
            await asyncio.to_thread(self._commit, [entry for entry, _ in batch])
        except InputError as error:
            if len(batch) > 1:  # one of them cannot be stored: only its own caller is told
                for one in batch:
                    await self._written([one])
                return
            failure = error
        except Exception as error:  # noqa: BLE001  each caller is told of it
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
        with self._catalog.transaction() as connection:
            write(connection, entries)
