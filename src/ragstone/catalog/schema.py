"""Define the tables of the catalog, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import sqlite

Value = TypeVar("Value")
MAX_BOUND_VALUES = 500
"""Values in one statement: databases limit them."""


def split_batches(
    values: Sequence[Value], size: int = MAX_BOUND_VALUES
) -> Iterator[Sequence[Value]]:
    """Yield the values in batches, each for one statement."""
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]


def insert_into(connection: Connection, table: Table) -> Any:
    """Return an INSERT of the database's own, which has `on_conflict_do_update`."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # it imports all its drivers: 40 ms

    return postgresql.insert(table)


tables = MetaData()

_KEY = BigInteger().with_variant(Integer, "sqlite")

# The version of these tables, of which `upgrade.py` has the newest; the name is from a library that
# wrote it first.
alembic_version = Table(
    "alembic_version", tables, Column("version_num", String(32), primary_key=True)
)

collections = Table(
    "collections",
    tables,
    Column("name", String, primary_key=True),
    Column("embedder", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

documents = Table(
    "documents",
    tables,
    Column("id", String, primary_key=True),
    Column("collection", String, nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("media_type", String, nullable=False),
    Column("sha256", String, nullable=False, index=True),
    Column("status", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("upload_id", String),
    Column("error", Text),
    Column("created_at", Float, nullable=False),
    # Set when a newer version took its place: its text stays readable for old citations.
    Column("retired_at", Float),
    # Its chunks have the keys first_key … first_key + chunk_count - 1.
    Column("first_key", _KEY, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    # CRC-32 of all that makes the document; None in rows of earlier versions.
    Column("checksum", _KEY),
    Index("documents_by_name", "collection", "retired_at", "name", "id"),
    Index("documents_by_upload", "upload_id"),
)

# The metadata of the current documents, one row for each value, so that a filter reads an index.
# A list has a row for each member; nested names are joined by dots. Texts have no `number`, and
# `kind` keeps true and 1 apart.
document_values = Table(
    "document_values",
    tables,
    Column("document_id", String, primary_key=True),
    Column("field", String, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("collection", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("text", String),
    Column("number", Float),
    Index("document_values_by_text", "collection", "field", "text"),
    Index("document_values_by_number", "collection", "field", "number"),
)

# Headings of the current documents, once from each of their words on, to find them by a prefix.
headings = Table(
    "headings",
    tables,
    Column("document_id", String, primary_key=True),
    Column("folded", String, primary_key=True),
    Column("is_start", Integer, primary_key=True, autoincrement=False),
    Column("collection", String, nullable=False),
    Column("title", String, nullable=False),
    Index("headings_by_prefix", "collection", "is_start", "folded"),
)

# Kept with every change of a document: counting takes longer the more there are.
document_counts = Table(
    "document_counts",
    tables,
    Column("collection", String, primary_key=True),
    Column("documents", _KEY, nullable=False),
    Column("failed", _KEY, nullable=False),
    Column("chunks", _KEY, nullable=False),
)

# Which document each place holds now. Two places with the same bytes share one document.
sources = Table(
    "sources",
    tables,
    Column("collection", String, primary_key=True),
    Column("source", String, primary_key=True),
    Column("document_id", String, nullable=False, index=True),
)

chunks = Table(
    "chunks",
    tables,
    Column("key", _KEY, primary_key=True, autoincrement=False),
    Column("document_id", String, nullable=False, index=True),
    Column("position", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("page", Integer),
    Column("heading_path", JSON, nullable=False),
    Column("content_type", String, nullable=False),
    # The wider span that is read when the chunk is found, where it has one.
    Column("passage_start", Integer),
    Column("passage_end", Integer),
    # The column names and the names of a table that stand outside the chunk, where it has them.
    Column("table_header", Text),
    Column("context", Text),
    # Its sentences, items, rows and listings as JSON: start, end, kind, lead-in. They can be found
    # again in the text, so the checksum leaves them out.
    Column("units", Text),
    # Little-endian float16: half the size of float32, and the same ranking. Empty where the
    # generation that is searched has its vectors elsewhere.
    Column("embedding", LargeBinary, nullable=False),
    # CRC-32 of the other columns, and of the vector alone: each has its own truth to repair it.
    Column("checksum", _KEY),
    Column("vector_checksum", _KEY),
)

# All vectors of one embedder over a collection. A collection without rows has one generation, that
# of its embedder; `collections.embedder` names the one that is searched.
generations = Table(
    "generations",
    tables,
    Column("collection", String, primary_key=True),
    Column("embedder", String, primary_key=True),
    # The settings that build the embedder, without keys; None if only the configured one does.
    Column("settings", JSON),
    # Where its vectors are (`vectors.Place`).
    Column("place", String, nullable=False),
    # Every chunk that was added up to this change has its vector.
    Column("filled_seq", _KEY, nullable=False),
    # The folder of its files below those of the collection's index.
    Column("folder", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

# The vectors of a second generation.
chunk_vectors = Table(
    "chunk_vectors",
    tables,
    Column("key", _KEY, primary_key=True, autoincrement=False),
    Column("embedding", LargeBinary, nullable=False),
    Column("checksum", _KEY, nullable=False),
)

# What happened to each collection, in order; an index remembers how far it has read.
changes = Table(
    "changes",
    tables,
    Column("seq", _KEY, primary_key=True, autoincrement=True),
    Column("collection", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("document_id", String, nullable=False),
    Column("first_key", _KEY, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Index("changes_by_collection", "collection", "seq"),
    sqlite_autoincrement=True,
)

counters = Table(
    "counters",
    tables,
    Column("name", String, primary_key=True),
    Column("value", _KEY, nullable=False),
)

# How far an index on a server has followed the changes of a collection. `build` numbers rebuilds.
index_states = Table(
    "index_states",
    tables,
    Column("index_name", String, primary_key=True),
    Column("collection", String, primary_key=True),
    Column("epoch", String, nullable=False),
    Column("build", _KEY, nullable=False),
    Column("seq", _KEY, nullable=False),
    # The removals up to this change are carried out.
    Column("deleted_seq", _KEY, nullable=False),
    Column("chunk_count", _KEY, nullable=False),
    Column("total_length", _KEY, nullable=False),
    # A new index is not searched before it has this change.
    Column("target_seq", _KEY, nullable=False),
    # Who follows the changes now, and until when.
    Column("holder", String, nullable=False, server_default=""),
    Column("held_until", Float, nullable=False, server_default="0"),
)

# In how many chunks of a collection each term occurs; `term` is its hash.
index_terms = Table(
    "index_terms",
    tables,
    Column("index_name", String, primary_key=True),
    Column("collection", String, primary_key=True),
    Column("term", _KEY, primary_key=True, autoincrement=False),
    Column("chunk_count", _KEY, nullable=False),
)

# What was last read from each file on the disk, so that an unchanged one costs a stat.
files = Table(
    "files",
    tables,
    Column("collection", String, primary_key=True),
    Column("path", String, primary_key=True),
    Column("size", _KEY, nullable=False),
    Column("mtime_ns", _KEY, nullable=False),
    Column("sha256", String, nullable=False, index=True),
    # The settings that shaped its chunks; others mean reading it again.
    Column("fingerprint", String, nullable=False),
    Column("status", String, nullable=False),
    # Its own document; none for an archive, whose members are documents.
    Column("document_id", String, index=True),
    Column("chunk_count", Integer, nullable=False),
    Column("error", Text),
    Column("hint", Text),
)

uploads = Table(
    "uploads",
    tables,
    Column("id", String, primary_key=True),
    Column("collection", String, nullable=False),
    Column("status", String, nullable=False),
    Column("file_count", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("finished_at", Float),
    # The process that reads it (its spool folder), until when it may, and since when it does.
    Column("reader", String, index=True),
    Column("held_until", Float, nullable=False, server_default="0"),
    Column("started_at", Float),
    Column("options", JSON),
    Column("size", _KEY, nullable=False, server_default="0"),
    # The larger an upload, the later it is due; after a failure it waits.
    Column("due", Float, nullable=False, server_default="0"),
    Column("not_before", Float, nullable=False, server_default="0"),
    # Since the last time that something of it was stored.
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("stages", JSON),
    Index("uploads_by_due", "status", "due"),
)

# The received files of an upload that are not read yet; their bytes are in originals/.
upload_inputs = Table(
    "upload_inputs",
    tables,
    Column("upload_id", String, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False, index=True),
    Column("sha256", String, nullable=False, index=True),
    Column("size", _KEY, nullable=False),
)

# Files in originals/ that may be deleted, if nothing else needs them.
unused_files = Table(
    "unused_files",
    tables,
    Column("sha256", String, primary_key=True),
    Column("marks", Integer, nullable=False, server_default="1"),
    # Until then a process may be deleting it.
    Column("deleting_until", Float, nullable=False, server_default="0"),
)

upload_files = Table(
    "upload_files",
    tables,
    Column("upload_id", String, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("document_id", String),
    Column("chunk_count", Integer, nullable=False),
    Column("error", Text),
    Column("hint", Text),
)

# The box of every line on its page, as compressed JSON.
page_lines = Table(
    "page_lines",
    tables,
    Column("document_id", String, primary_key=True),
    Column("lines", LargeBinary, nullable=False),
)

queries = Table(
    "queries",
    tables,
    Column("id", String, primary_key=True),
    Column("collection", String, nullable=False),
    Column("created_at", Float, nullable=False, index=True),
    Column("status", String, nullable=False),
    Column("question", Text),
    Column("answer", Text),
    Column("record", JSON, nullable=False),
    Column("owner", String, index=True),
    Column("session_id", String, index=True),
    Column("upload_id", String),
    # What analytics add up, so that they need not read whole traces.
    Column("figures", JSON),
    Column("evidence", String, index=True),
)

# What an answer rests on, once for all queries that were answered with it.
evidence = Table(
    "evidence",
    tables,
    Column("id", String, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# A session belongs to its key's owner: two owners may use the same id and never meet.
sessions = Table(
    "sessions",
    tables,
    Column("owner", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("collection", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False, index=True),
    Column("summary", Text, nullable=False),
    # Turns before this position are in the summary.
    Column("summarised", Integer, nullable=False),
    # As the owner named it; empty for the first question.
    Column("title", Text, nullable=False, server_default=""),
)

turns = Table(
    "turns",
    tables,
    Column("owner", String, primary_key=True),
    Column("session_id", String, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("query_id", String, nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("intent", String, nullable=False),
    Column("created_at", Float, nullable=False),
    # The whole question that a follow-up was searched as.
    Column("searched_as", Text, nullable=False, server_default=""),
)

# Links that show one answer to others; a link ends with its query.
shares = Table(
    "shares",
    tables,
    Column("token", String, primary_key=True),
    Column("query_id", String, nullable=False, index=True),
    Column("created_at", Float, nullable=False),
)

# How users rate answers, one row for each user and query; it is deleted with its query.
feedback = Table(
    "feedback",
    tables,
    Column("query_id", String, primary_key=True),
    Column("owner", String, primary_key=True, index=True),
    Column("vote", String),
    Column("rating", Integer),
    Column("comment", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)

# Who agreed that their questions are stored, and to which settings of the journal.
consents = Table(
    "consents",
    tables,
    Column("owner", String, primary_key=True),
    Column("agreed_at", Float, nullable=False),
    Column("query_log", String, nullable=False),
    Column("retention_days", Integer, nullable=False),
)

# Who may come in. A key itself is never stored, only its SHA-256.
keys = Table(
    "keys",
    tables,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("role", String, nullable=False),
    # Names, or patterns such as "team-*".
    Column("collections", JSON, nullable=False),
    Column("digest", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", Float),
)
