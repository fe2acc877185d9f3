"""Store the records of ingestion in the catalog's database: files, uploads, lines of pages."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from sqlalchemy import Connection, func, select

from ragstone.blocks import LineBox
from ragstone.catalog import rows
from ragstone.catalog.schema import (
    chunks,
    documents,
    files,
    page_lines,
    sources,
    upload_files,
    uploads,
)
from ragstone.errors import NotFoundError
from ragstone.protocols import Catalog, FileRecord, Vectors
from ragstone.reports import IngestedFile
from ragstone.types import Document

MEMBER_SEPARATOR = "!/"
"""Stands between the path of a file and the path of a document inside it."""


class SqlIntakeRecords:
    """Implement `IntakeRecords` on the tables `files`, `uploads` and `page_lines`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def known_files(self, collection: str) -> dict[str, FileRecord]:
        columns = [column for column in files.c if column.name != "collection"]
        query = select(*columns).where(files.c.collection == collection)
        with self._catalog.read_transaction() as connection:
            return {
                row.path: FileRecord(**row._asdict() | {"hint": row.hint or ""})
                for row in connection.execute(query)
            }

    def save_files(self, collection: str, records: Sequence[FileRecord]) -> None:
        with self._catalog.write_transaction() as connection:
            for file in records:
                _delete_file(connection, collection, file.path)
                connection.execute(files.insert().values(collection=collection, **asdict(file)))

    def delete_file(self, collection: str, path: str) -> None:
        with self._catalog.write_transaction() as connection:
            _delete_file(connection, collection, path)

    def sources_inside(self, collection: str, path: str) -> dict[str, str]:
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
        with self._catalog.read_transaction() as connection:
            return rows.is_current(connection, document_id)

    def vectors_by_text(self, document_id: str) -> dict[str, Vectors]:
        query = (
            rows.select_chunks.add_columns(chunks.c.embedding)
            .where(chunks.c.document_id == document_id)
            .order_by(chunks.c.key)
        )
        with self._catalog.read_transaction() as connection:
            return {
                rows.to_chunk(row).contextual_text: rows.to_vector(row.embedding)
                for row in connection.execute(query)
            }

    def versions(self, collection: str, name: str) -> list[tuple[Document, float | None]]:
        query = (
            select(*rows.columns_without_text, rows.any_source)
            .where(documents.c.collection == collection, documents.c.name == name)
            .order_by(documents.c.created_at.desc(), documents.c.id)
        )
        with self._catalog.read_transaction() as connection:
            return [(rows.to_document(row), row.retired_at) for row in connection.execute(query)]

    def save_lines(self, lines: Mapping[str, Sequence[LineBox]]) -> None:
        with self._catalog.write_transaction() as connection:
            for document_id, boxes in lines.items():
                connection.execute(
                    page_lines.delete().where(page_lines.c.document_id == document_id)
                )
                packed = zlib.compress(json.dumps([astuple(box) for box in boxes]).encode())
                connection.execute(
                    page_lines.insert().values(document_id=document_id, lines=packed)
                )

    def lines(self, document_id: str) -> list[LineBox]:
        query = select(page_lines.c.lines).where(page_lines.c.document_id == document_id)
        with self._catalog.read_transaction() as connection:
            packed = connection.scalar(query)
        boxes = [] if packed is None else json.loads(zlib.decompress(packed))
        return [LineBox(*box) for box in boxes]

    def begin_upload(self, upload_id: str, collection: str, *, file_count: int) -> None:
        new = {"id": upload_id, "collection": collection, "file_count": file_count}
        with self._catalog.write_transaction() as connection:
            connection.execute(
                uploads.insert().values(**new, status="running", created_at=time.time())
            )

    def add_upload_file(self, upload_id: str, position: int, file: IngestedFile) -> None:
        with self._catalog.write_transaction() as connection:
            connection.execute(
                upload_files.insert().values(upload_id=upload_id, position=position, **asdict(file))
            )

    def finish_upload(self, upload_id: str, status: str) -> None:
        with self._catalog.write_transaction() as connection:
            connection.execute(
                uploads.update()
                .where(uploads.c.id == upload_id)
                .values(status=status, finished_at=time.time())
            )

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

    def delete_document_records(self, document_id: str) -> bool:
        with self._catalog.write_transaction() as connection:
            connection.execute(page_lines.delete().where(page_lines.c.document_id == document_id))
            connection.execute(files.delete().where(files.c.document_id == document_id))
            sha256 = select(documents.c.sha256).where(documents.c.id == document_id)
            others = select(func.count()).where(
                documents.c.sha256 == sha256.scalar_subquery(), documents.c.id != document_id
            )
            return not connection.scalar(others)

    def delete_expired_versions(self, *, before: float) -> list[str]:
        with self._catalog.write_transaction() as connection:
            old = connection.execute(
                select(documents.c.id, documents.c.sha256).where(documents.c.retired_at < before)
            ).all()
            for row in old:
                connection.execute(page_lines.delete().where(page_lines.c.document_id == row.id))
                connection.execute(documents.delete().where(documents.c.id == row.id))
            used = select(documents.c.sha256)
            return [
                row.sha256
                for row in old
                if connection.execute(used.where(documents.c.sha256 == row.sha256)).first() is None
            ]


def _delete_file(connection: Connection, collection: str, path: str) -> None:
    connection.execute(files.delete().where(files.c.collection == collection, files.c.path == path))


def upload_not_found(upload_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no upload with the id '{upload_id}'.",
        hint="Use the `upload_id` from the reply to the upload.",
    )
