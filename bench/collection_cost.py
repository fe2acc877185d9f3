"""Measure what requests cost in the catalog of a collection that grows, in CPU milliseconds.

    python bench/collection_cost.py 2000 20000 200000

Documents are inserted as rows, without reading or embedding anything: one chunk each, a heading,
two fields of metadata, of which `project` selects twenty documents.
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ragstone.catalog import schema
from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.history import History
from ragstone.catalog.uploads import SqlIntakeRecords
from ragstone.filters import ANY_QUERY, parse_filter
from ragstone.protocols import FileRecord, NewDocument
from ragstone.settings import load_settings
from ragstone.types import Chunk, Document, Query

COLLECTION = "c"
PER_PROJECT = 20
REPEATS = 5


def build_rows(at: int) -> dict[str, dict[str, Any]]:
    """Return the rows of one document, by the table they belong to."""
    key, path = f"d{at:08}", f"/data/{at % 100}/document {at}.txt"
    document = {
        "id": key, "collection": COLLECTION, "name": path[6:], "media_type": "text/plain",
        "sha256": key, "status": "indexed", "text": "", "created_at": 1.7e9 + at,
        "metadata": {"project": f"p{at // PER_PROJECT}", "year": 2000 + at % 25},
        "first_key": at + 1, "chunk_count": 1,
    }  # fmt: skip
    chunk = {
        "key": at + 1, "document_id": key, "position": 0, "start": 0, "end": 0, "text": "",
        "heading_path": [f"Notice number {at}"], "content_type": "text", "embedding": b"",
    }  # fmt: skip
    change = {"collection": COLLECTION, "kind": "add", "document_id": key}
    file = FileRecord(path, 1, 1, key, "f", "indexed", key, 1)
    return {
        "documents": document,
        "chunks": chunk,
        "changes": {**change, "first_key": at + 1, "chunk_count": 1},
        "sources": {"collection": COLLECTION, "source": path, "document_id": key},
        "files": {"collection": COLLECTION, **{n: getattr(file, n) for n in file.__slots__}},
    }


def fill(catalog: SqlCatalog, count: int) -> None:
    with catalog.write_transaction() as connection:
        values = {"name": COLLECTION, "embedder": "e", "created_at": 1.0}
        connection.execute(schema.collections.insert().values(**values))
        for begin in range(0, count, 5000):
            each = [build_rows(at) for at in range(begin, min(begin + 5000, count))]
            for name in each[0]:
                table = schema.tables.tables[name]
                connection.execute(table.insert(), [one[name] for one in each])
            insert_lookups = find_lookups()
            for one in each if insert_lookups else ():
                row = SimpleNamespace(**one["documents"])
                insert_lookups(connection, row, [one["chunks"]["heading_path"]])
        connection.execute(
            schema.counters.update()
            .where(schema.counters.c.name == "chunk_key")
            .values(value=count)
        )


def find_lookups() -> Any:
    """Return None for a version of Ragstone that has none, to compare it."""
    try:
        from ragstone.catalog.lookup import insert_lookups
    except ImportError:
        return None
    return insert_lookups


def build_document(at: int) -> NewDocument:
    key = f"new{at}"
    chunk = Chunk(key, 0, "text", 0, 4, key, heading_path=("Notice",))
    document = Document(
        id=key, collection=COLLECTION, source=f"upload:{key}", name=key, media_type="text/plain",
        sha256=key, text="text", chunk_count=1, created_at=time.time(),
    )  # fmt: skip
    return NewDocument(document, (chunk,), np.zeros((1, 16), np.float32))


def list_requests(catalog: SqlCatalog) -> Iterator[tuple[str, Callable[[int], object]]]:
    records, collections = SqlIntakeRecords(catalog), SqlCollections(catalog)
    history = History(catalog, load_settings(environ={}).settings.journal)
    takes_paths = "paths" in inspect.signature(records.known_files).parameters

    def filter_keys(at: int) -> object:
        given = parse_filter({"project": f"p{at}", "year": {"gte": 2000}})
        scope = catalog.resolve_scope(Query("q", "q", COLLECTION, filter=given))
        assert scope is not None
        assert sum(map(len, scope.ranges)) == PER_PROJECT
        return scope

    def upload(at: int) -> None:
        path = f"upload:new{at}"
        known: Any = records.known_files
        known(COLLECTION, [path]) if takes_paths else known(COLLECTION)
        catalog.add([build_document(at)], embedder="e")
        records.save_files(
            COLLECTION, [FileRecord(path, 1, 1, f"new{at}", "f", "indexed", f"new{at}", 1)]
        )

    def list_documents(_at: int) -> object:
        return catalog.documents(COLLECTION, limit=50), catalog.document_count(COLLECTION)

    def suggest(at: int) -> object:
        # After a change, as with every upload.
        catalog.delete(f"new{at}")
        return history.suggestions("noti", wanted=ANY_QUERY, collections=[COLLECTION])

    yield "filter", filter_keys
    yield "upload", upload
    yield "list", list_documents
    yield "suggest", suggest
    yield "collections", lambda _at: collections.list_all()


def measure(count: int) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(SqlCatalog.in_directory(Path(folder))) as catalog,
    ):
        fill(catalog, count)
        figures = {}
        for name, request in list_requests(catalog):
            times = []
            for at in range(REPEATS):
                begun = time.process_time()
                request(at)
                times.append(time.process_time() - begun)
            figures[name] = 1000 * sorted(times)[REPEATS // 2]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure requests over a growing collection.")
    parser.add_argument("sizes", nargs="*", type=int, default=[2000, 20_000, 200_000])
    print("CPU ms    filter   upload     list  suggest  collections")
    for size in parser.parse_args().sizes:
        figures = measure(size)
        cells = "".join(f"{figures[name]:9.1f}" for name in ("filter", "upload", "list", "suggest"))
        print(f"{size:7,}{cells}{figures['collections']:13.1f}", flush=True)


if __name__ == "__main__":
    main()
