"""What ingestion remembers beside the documents, in the catalog's own database."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, astuple
from typing import Any, Protocol

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
from ragstone.protocols import SeenFile, Vectors
from ragstone.types import Document, IngestedFile

INSIDE = "!/"
"""Between a file and the place of a document inside it."""


class Transactions(Protocol):
    """A catalog that lets others into its database."""

    def transaction(self) -> AbstractContextManager[Connection]: ...
    def reading(self) -> AbstractContextManager[Connection]: ...


class SqlIntakeRecords:
    """The tables `files`, `uploads`, `upload_files` and `page_lines`."""

    def __init__(self, catalog: Transactions) -> None:
        self._catalog = catalog

    def seen(self, collection: str) -> dict[str, SeenFile]:
        columns = [column for column in files.c if column.name != "collection"]
        query = select(*columns).where(files.c.collection == collection)
        with self._catalog.reading() as connection:
            found = (row._asdict() for row in connection.execute(query))
            return {
                fields["path"]: SeenFile(**fields | {"hint": fields["hint"] or ""})
                for fields in found
            }

    def note(self, collection: str, seen: Sequence[SeenFile]) -> None:
        with self._catalog.transaction() as connection:
            for file in seen:
                _forget(connection, collection, file.path)
                connection.execute(files.insert().values(collection=collection, **asdict(file)))

    def forget(self, collection: str, path: str) -> None:
        with self._catalog.transaction() as connection:
            _forget(connection, collection, path)

    def sources_inside(self, collection: str, path: str) -> dict[str, str]:
        prefix = path + INSIDE
        query = select(sources.c.source, sources.c.document_id).where(
            sources.c.collection == collection,
            # No LIKE: a path may hold its wildcards. The range is what an index can serve.
            sources.c.source >= prefix,
            sources.c.source < prefix + "\U0010ffff",
        )
        with self._catalog.reading() as connection:
            return {row.source: row.document_id for row in connection.execute(query)}

    def is_living(self, document_id: str) -> bool:
        query = select(documents.c.id).where(
            documents.c.id == document_id,
            documents.c.status == "indexed",
            documents.c.retired_at.is_(None),
        )
        with self._catalog.reading() as connection:
            return connection.execute(query).first() is not None

    def vectors_of(self, document_id: str) -> dict[str, Vectors]:
        query = (
            rows.select_chunks.add_columns(chunks.c.embedding)
            .where(chunks.c.document_id == document_id)
            .order_by(chunks.c.key)
        )
        with self._catalog.reading() as connection:
            return {
                rows.chunk(row).contextual_text: rows.vector(row.embedding)
                for row in connection.execute(query)
            }

    def versions(self, collection: str, name: str) -> list[tuple[Document, float | None]]:
        query = (
            select(*rows.without_text, rows.any_source)
            .where(documents.c.collection == collection, documents.c.name == name)
            .order_by(documents.c.created_at.desc(), documents.c.id)
        )
        with self._catalog.reading() as connection:
            return [(rows.document(row), row.retired_at) for row in connection.execute(query)]

    def keep_lines(self, lines: Mapping[str, Sequence[LineBox]]) -> None:
        with self._catalog.transaction() as connection:
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
        with self._catalog.reading() as connection:
            packed = connection.scalar(query)
        return [] if packed is None else [LineBox(*box) for box in json.loads(
            zlib.decompress(packed))]  # fmt: skip

    def begin_upload(self, upload_id: str, collection: str, *, file_count: int) -> None:
        with self._catalog.transaction() as connection:
            connection.execute(
                uploads.insert().values(
                    id=upload_id, collection=collection, status="running",
                    file_count=file_count, created_at=time.time(),
                )
            )  # fmt: skip

    def note_upload(self, upload_id: str, position: int, file: IngestedFile) -> None:
        with self._catalog.transaction() as connection:
            connection.execute(
                upload_files.insert().values(upload_id=upload_id, position=position, **asdict(file))
            )

    def finish_upload(self, upload_id: str, status: str) -> None:
        with self._catalog.transaction() as connection:
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
        with self._catalog.reading() as connection:
            row = connection.execute(select(uploads).where(uploads.c.id == upload_id)).first()
            if row is None:
                raise no_upload(upload_id)
            return row._asdict() | {
                "files": [dict(outcome._asdict()) for outcome in connection.execute(outcomes)]
            }

    def forget_document(self, document_id: str) -> bool:
        with self._catalog.transaction() as connection:
            connection.execute(page_lines.delete().where(page_lines.c.document_id == document_id))
            connection.execute(files.delete().where(files.c.document_id == document_id))
            sha256 = select(documents.c.sha256).where(documents.c.id == document_id)
            others = select(func.count()).where(
                documents.c.sha256 == sha256.scalar_subquery(), documents.c.id != document_id
            )
            return not connection.scalar(others)

    def expire(self, *, before: float) -> list[str]:
        with self._catalog.transaction() as connection:
            old = connection.execute(
                select(documents.c.id, documents.c.sha256).where(documents.c.retired_at < before)
            ).all()
            for row in old:
                connection.execute(page_lines.delete().where(page_lines.c.document_id == row.id))
                connection.execute(documents.delete().where(documents.c.id == row.id))
            held = select(documents.c.sha256)
            return [
                row.sha256
                for row in old
                if connection.execute(held.where(documents.c.sha256 == row.sha256)).first() is None
            ]


def _forget(connection: Connection, collection: str, path: str) -> None:
    connection.execute(files.delete().where(files.c.collection == collection, files.c.path == path))


def no_upload(upload_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no upload with the id '{upload_id}'.",
        hint="The id is in the reply to the upload.",
    )
