"""Store the records of ingestion in the catalog's database: files, uploads, lines of pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from ragstone.blocks import LineBox
from ragstone.catalog import rows
from ragstone.catalog.originals import delete_unused, mark_unused
from ragstone.catalog.schema import (
    chunks,
    documents,
    files,
    page_lines,
    sources,
    split_batches,
    upload_files,
    uploads,
)
from ragstone.catalog.vectors import get_vector, select_vectors
from ragstone.errors import NotFoundError
from ragstone.protocols import Catalog, FileRecord, Vectors
from ragstone.types import Document

MEMBER_SEPARATOR = "!/"
"""Stands between the path of a file and the path of a document inside it."""


_NAMED_SOURCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]+):(.+)", re.DOTALL)


def split_source(source: str) -> tuple[str, str]:
    """Split `NAME:PATH` into the name of a machine or share and a path; the name may be empty.

    A name has two characters or more: `C:` begins a path of Windows.
    """
    found = _NAMED_SOURCE.fullmatch(source)
    return (found[1], found[2]) if found else ("", source)


class SqlIntakeRecords:
    """Store what ingestion needs beside the documents: files, uploads, lines of pages."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def known_files(self, collection: str, paths: Sequence[str]) -> dict[str, FileRecord]:
        """Return those of the paths that were read into a collection, with their records."""
        found: dict[str, FileRecord] = {}
        for part in split_batches(paths):
            found |= self._read_files(collection, files.c.path.in_(part))
        return found

    def files_below(self, collection: str, root: str) -> dict[str, FileRecord]:
        """Return the file at a path, or all files below it, that were read into a collection."""
        # Roots are absolute: one that does not begin with a slash is a path of Windows.
        separator = "/" if split_source(root)[1].startswith("/") else "\\"
        prefix = root.rstrip(separator) + separator
        is_below = (files.c.path >= prefix) & (files.c.path < prefix + "\U0010ffff")
        found = self._read_files(collection, (files.c.path == root) | is_below)
        # A database may order texts in its own way.
        return {path: one for path, one in found.items() if path == root or path.startswith(prefix)}

    def _read_files(self, collection: str, condition: ColumnElement[bool]) -> dict[str, FileRecord]:
        columns = [column for column in files.c if column.name != "collection"]
        query = select(*columns).where(files.c.collection == collection, condition)
        with self._catalog.read_transaction() as connection:
            return {
                row.path: FileRecord(**row._asdict() | {"hint": row.hint or ""})
                for row in connection.execute(query)
            }

    def save_files(self, collection: str, records: Sequence[FileRecord]) -> None:
        with self._catalog.write_transaction(f"files:{collection}") as connection:
            for file in records:
                _delete_file(connection, collection, file.path, new_sha256=file.sha256)
                connection.execute(files.insert().values(collection=collection, **asdict(file)))

    def delete_file(self, collection: str, path: str) -> None:
        with self._catalog.write_transaction(f"files:{collection}") as connection:
            _delete_file(connection, collection, path)

    def sources_inside(self, collection: str, path: str) -> dict[str, str]:
        """Return the documents read from inside a file: source → document id."""
        prefix = path + MEMBER_SEPARATOR
        query = select(sources.c.source, sources.c.document_id).where(
            sources.c.collection == collection,
            # Not LIKE: a path may contain its wildcards. A range can use the database's index.
            sources.c.source >= prefix,
            sources.c.source < prefix + "\U0010ffff",
        )
        with self._catalog.read_transaction() as connection:
            return {row.source: row.document_id for row in connection.execute(query)}

    def is_current(self, document_id: str) -> bool:
        """Return whether a document exists, was read without error and is not replaced."""
        with self._catalog.read_transaction() as connection:
            return rows.is_current(connection, document_id)

    def vectors_by_text(self, document_id: str, embedder: str) -> dict[str, Vectors]:
        """Return the vectors of a document's chunks, by the text that was embedded."""
        query = (
            select_vectors(embedder)
            .where(chunks.c.document_id == document_id)
            .order_by(chunks.c.key)
        )
        with self._catalog.read_transaction() as connection:
            return {
                rows.to_chunk(row).contextual_text: rows.to_vector(get_vector(row)[0])
                for row in connection.execute(query)
                if get_vector(row)[0]
            }

    def versions(self, collection: str, name: str) -> list[tuple[Document, float | None]]:
        """List all versions of a document name, newest first, with the time of replacement."""
        query = (
            select(*rows.columns_without_text, rows.any_source)
            .where(documents.c.collection == collection, documents.c.name == name)
            .order_by(documents.c.created_at.desc(), documents.c.id)
        )
        with self._catalog.read_transaction() as connection:
            return [(rows.to_document(row), row.retired_at) for row in connection.execute(query)]

    def hints(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Return what helps with documents that could not be read, by their ids."""
        found: dict[str, str] = {}
        with self._catalog.read_transaction() as connection:
            for part in split_batches(document_ids):
                for table in (upload_files, files):
                    query = select(table.c.document_id, table.c.hint)
                    rows_found = connection.execute(query.where(table.c.document_id.in_(part)))
                    found |= {row.document_id: row.hint for row in rows_found if row.hint}
        return found

    def lines(self, document_id: str) -> list[LineBox]:
        query = select(page_lines.c.lines).where(page_lines.c.document_id == document_id)
        with self._catalog.read_transaction() as connection:
            packed = connection.scalar(query)
        return [] if packed is None else rows.unpack_lines(packed)

    def upload(self, upload_id: str) -> dict[str, Any]:
        outcomes = (
            select(*[c for c in upload_files.c if c.name not in {"upload_id", "position"}])
            .where(upload_files.c.upload_id == upload_id)
            .order_by(upload_files.c.position)
        )
        with self._catalog.read_transaction() as connection:
            row = connection.execute(select(uploads).where(uploads.c.id == upload_id)).first()
            if row is None:
                raise upload_not_found(upload_id)
            found = [one._asdict() for one in connection.execute(outcomes)]
            return {**row._asdict(), "files": found}

    def delete_document_records(self, document_id: str) -> None:
        sha256 = select(documents.c.sha256).where(documents.c.id == document_id)
        with self._catalog.write_transaction() as connection:
            mark_unused(connection, connection.scalar(sha256) or "")
            connection.execute(files.delete().where(files.c.document_id == document_id))
            mine = select(sources).where(sources.c.document_id == document_id)
            for row in connection.execute(mine).all():
                path, is_member, _ = row.source.partition(MEMBER_SEPARATOR)
                if is_member and len(self.sources_inside(row.collection, path)) == 1:
                    _delete_file(connection, row.collection, path)

    def delete_expired_versions(self, *, before: float) -> dict[str, str]:
        """Delete the versions that were replaced before a time; return id → collection."""
        columns = documents.c.id, documents.c.sha256, documents.c.collection
        with self._catalog.write_transaction() as connection:
            old = connection.execute(select(*columns).where(documents.c.retired_at < before)).all()
            for row in old:
                connection.execute(page_lines.delete().where(page_lines.c.document_id == row.id))
                connection.execute(documents.delete().where(documents.c.id == row.id))
                mark_unused(connection, row.sha256)
        return {row.id: row.collection for row in old}

    def delete_unused_files(self, remove: Callable[[str], None], *, keep_read: bool) -> None:
        """Call `remove` for the hash of every stored file that nothing needs any more.

        With `keep_read` a document needs its file, else only an upload that is not read yet does.
        """
        delete_unused(self._catalog, remove, keep_read=keep_read)


def _delete_file(
    connection: Connection, collection: str, path: str, *, new_sha256: str = ""
) -> None:
    here = (files.c.collection == collection, files.c.path == path)
    sha256 = connection.scalar(select(files.c.sha256).where(*here))
    if sha256 and sha256 != new_sha256:
        mark_unused(connection, sha256)
    connection.execute(files.delete().where(*here))


def upload_not_found(upload_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no upload with the id '{upload_id}'.",
        hint="Use the `upload_id` from the reply to the upload.",
    )
