"""Verify the stored content: documents, chunks and vectors by CRC-32, originals by SHA-256.

Rows of versions that wrote no checksums are only read. Nothing is changed here: each finding names
the command that repairs it.
"""

from __future__ import annotations

import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from ragstone.catalog import rows
from ragstone.catalog.backup import Finding
from ragstone.catalog.database import Database
from ragstone.catalog.originals import UPLOAD_SCHEME, Originals
from ragstone.catalog.schema import (
    changes,
    chunks,
    collections,
    counters,
    document_counts,
    documents,
    files,
    page_lines,
    upload_inputs,
)
from ragstone.catalog.uploads import MEMBER_SEPARATOR, split_source
from ragstone.catalog.vectors import has_sound_vector, select_vectors
from ragstone.errors import StoreDamagedError
from ragstone.files import hash_file
from ragstone.messages import format_count

_MAX_SHOWN = 20


@dataclass(slots=True)
class _Report:
    """Hold what was found in one document."""

    id: str
    collection: str = ""
    source: str = ""
    chunks: int = 0
    wrong_vectors: int = 0
    problems: list[str] = field(default_factory=list)


def check_content(
    database: Database,
    originals: Originals,
    *,
    keeps_originals: bool,
    pause: Callable[[], None] = lambda: None,
) -> Iterator[Finding]:
    """Compare everything that is stored with its checksum, and report what differs.

    `pause` is called after each document and each file.
    """
    yield from _check_records(database)
    yield from _check_documents(database, pause)
    yield from _check_originals(database, originals, pause, keeps_originals=keeps_originals)


def _check_records(database: Database) -> Iterator[Finding]:
    """Compare what is stored twice: the change log, the counts and the counter of keys."""
    current = (documents.c.collection, documents.c.first_key, documents.c.chunk_count)
    stored = select(*current).where(documents.c.retired_at.is_(None), documents.c.chunk_count > 0)
    counted = select(document_counts.c.collection, document_counts.c.chunks)
    with database.read_transaction(is_snapshot=True) as connection:
        living = {tuple(row) for row in connection.execute(stored)}
        logged: set[tuple[str, int, int]] = set()
        for row in connection.execute(select(changes).order_by(changes.c.seq)):
            one = (row.collection, row.first_key, row.chunk_count)
            logged.add(one) if row.kind == "add" else logged.discard(one)
        counts = {name: count for name, count in connection.execute(counted) if count}
        last_key = connection.scalar(select(func.max(chunks.c.key))) or 0
        next_key = connection.scalar(select(counters.c.value).where(counters.c.name == "chunk_key"))
    sums: Counter[str] = Counter()
    for collection, _, count in living:
        sums[collection] += count
    wrong = {
        "the change log": logged != living,
        "the numbers of chunks": counts != dict(sums),
        "the counter of keys": next_key is None or next_key < last_key,
    }
    if any(wrong.values()):
        names = ", ".join(name for name, is_wrong in wrong.items() if is_wrong)
        detail = f"damaged: {names}; restore a backup, or move the catalog away and ingest again"
        yield Finding("records", "wrong", detail)


def _check_documents(database: Database, pause: Callable[[], None]) -> Iterator[Finding]:
    with database.read_transaction() as connection:
        ids = list(connection.scalars(select(documents.c.id).order_by(documents.c.id)))
    wrong_vectors: Counter[str] = Counter()
    wrong_documents = chunk_count = 0
    for document_id in ids:
        report = _check_document(database, document_id)
        pause()
        chunk_count += report.chunks
        wrong_vectors[report.collection] += report.wrong_vectors
        if report.problems:
            wrong_documents += 1
            if wrong_documents <= _MAX_SHOWN:
                yield _describe(report)
    if wrong_documents > _MAX_SHOWN:
        more = f"{wrong_documents - _MAX_SHOWN:,} more documents are damaged; restore a backup"
        yield Finding("content", "wrong", more)
    for collection, count in wrong_vectors.items():
        if count:
            command = f"ragstone reindex --embed --collection {shlex.quote(collection)}"
            detail = f"{count:,} damaged; run: {command}"
            yield Finding(f"vectors of {collection}", "wrong", detail)
    if not wrong_documents and not wrong_vectors.total():
        read = f"{format_count(len(ids), 'document')} and {format_count(chunk_count, 'chunk')}"
        detail = f"checked {read} with their vectors: all are intact"
        yield Finding("content", "ok", detail)


def _check_document(database: Database, document_id: str) -> _Report:
    report = _Report(document_id)
    try:
        with database.read_transaction(is_snapshot=True) as connection:
            _compare_rows(connection, report)
    # The row cannot be decoded. An outage is raised: it says nothing about the document.
    except (StoreDamagedError, ValueError, zlib.error) as error:
        report.problems.append(f"it cannot be read ({str(error).partition(chr(10))[0]})")
    return report


def _compare_rows(connection: Connection, report: _Report) -> None:
    """Compare the rows of one document with their checksums."""
    query = select(documents, rows.any_source).where(documents.c.id == report.id)
    stored = connection.execute(query).first()
    if stored is None:
        return  # deleted meanwhile
    row = stored._asdict()
    report.collection, report.source = row["collection"], row["source"] or ""
    if row["checksum"] is not None and rows.sum_document(row) != row["checksum"]:
        report.problems.append("its text or its fields are damaged")
    wrong_chunks = 0
    name = select(collections.c.embedder).where(collections.c.name == report.collection)
    embedder = connection.scalar(name) or ""
    found = select_vectors(embedder).add_columns(chunks.c.checksum)
    found = found.where(chunks.c.document_id == report.id)
    for one in connection.execute(found.order_by(chunks.c.key)):
        chunk = one._asdict()
        report.chunks += 1
        report.wrong_vectors += not has_sound_vector(one)
        if chunk["checksum"] is not None and rows.sum_chunk(chunk) != chunk["checksum"]:
            wrong_chunks += 1
    if wrong_chunks:
        report.problems.append(f"damaged chunks: {wrong_chunks:,}")
    # The chunks of a replaced version are deleted; its text stays for old citations.
    if row["retired_at"] is None and report.chunks != row["chunk_count"]:
        report.problems.append(f"it has {report.chunks:,} of {row['chunk_count']:,} chunks")
    lines = select(page_lines.c.lines).where(page_lines.c.document_id == report.id)
    packed = connection.scalar(lines)
    if packed is not None:
        rows.unpack_lines(packed)


def _describe(report: _Report) -> Finding:
    detail = "; ".join(report.problems)
    source = report.source.partition(MEMBER_SEPARATOR)[0]
    if source and not source.startswith(UPLOAD_SCHEME):
        name, path = split_source(source)
        place = f"--collection {shlex.quote(report.collection)} {shlex.quote(path)}"
        detail += f"; run: ragstone ingest --again {f'--source {name} ' if name else ''}{place}"
    else:
        detail += f"; run: ragstone documents delete {report.id}, then upload the file again"
    return Finding(f"document {report.source or report.id}", "wrong", detail)


def _check_originals(
    database: Database, originals: Originals, pause: Callable[[], None], *, keeps_originals: bool
) -> Iterator[Finding]:
    names = _read_upload_names(database, keeps_originals=keeps_originals)
    try:
        stored = set(originals.files.list_hashes())
    except OSError as error:
        yield Finding("originals", "wrong", f"they cannot be read ({error}); check the disk")
        return
    if names and not stored:
        detail = f"not one of {format_count(len(names), 'file')} was found; is the disk mounted? "
        yield Finding("originals", "wrong", detail + "If they are lost, restore a backup")
        return
    wrong = [(sha256, "is missing") for sha256 in sorted(names.keys() - stored)]
    is_local = originals.files.is_local
    # An object store verifies its files itself, and charges for reading them.
    unreadable = 0
    for sha256 in sorted(stored) if is_local else ():
        try:
            if not _is_intact(originals, sha256):
                wrong.append((sha256, "is damaged"))
        except OSError as error:
            unreadable += 1
            if unreadable <= _MAX_SHOWN:
                yield Finding("original", "wrong", f"{sha256} cannot be read ({error.strerror})")
        pause()
    for sha256, problem in wrong[:_MAX_SHOWN]:
        name = names.get(sha256, "")
        repair = f"upload '{name}' again" if name else "nothing uses it; delete the file"
        path = f"originals/{sha256[:2]}/{sha256}"
        yield Finding("original", "wrong", f"{path} {problem}; {repair}")
    if len(wrong) > _MAX_SHOWN:
        more = f"{len(wrong) - _MAX_SHOWN:,} more are missing or damaged; restore a backup"
        yield Finding("originals", "wrong", more)
    if not wrong and not unreadable:
        state = "all match their SHA-256" if is_local else "all are in the object store"
        found = f"checked {format_count(len(stored), 'file')}: {state}" if stored else "none stored"
        yield Finding("originals", "ok", found)


def _read_upload_names(database: Database, *, keeps_originals: bool) -> dict[str, str]:
    """Return the names of the uploaded files whose originals must exist, by SHA-256."""
    path = files.c.path
    queries: list[Any] = [select(upload_inputs.c.sha256, upload_inputs.c.name)]
    if keeps_originals:
        is_uploaded = func.substr(path, 1, len(UPLOAD_SCHEME)) == UPLOAD_SCHEME
        queries.append(select(files.c.sha256, path).where(is_uploaded))
    with database.read_transaction() as connection:
        found = [row for query in queries for row in connection.execute(query)]
    return {sha256: name.removeprefix(UPLOAD_SCHEME) for sha256, name in found if sha256}


def _is_intact(originals: Originals, sha256: str) -> bool:
    try:
        path = originals.files.find(sha256)
        return path is None or hash_file(path) == sha256  # None: deleted meanwhile
    except FileNotFoundError:
        return True
