"""Documents are listed without their texts, within the limits of a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragstone.catalog.collections import list_entries
from ragstone.catalog.documents import SqlCatalog
from ragstone.filters import match_any
from ragstone.protocols import NewDocument
from ragstone.types import Chunk, Document, Query


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog.in_directory(tmp_path)
    for number in range(12):
        kind = "contract" if number < 3 else "note"
        document = Document(
            f"d{number}",
            "default",
            f"/{kind}-{number}.txt",
            f"{kind}-{number}.txt",
            "text/plain",
            str(number),
            text="Text.",
            metadata={"title": f"Title {number}", "subject": kind, "year": number},
            upload_id="u1" if number == 5 else None,
        )
        chunk = Chunk(document.id, 0, "Text.", 0, 5)
        new = NewDocument(document, (chunk,), np.ones((1, 4), np.float32))
        catalog.add([new], embedder="test")
    yield catalog
    catalog.close()


def test_entries_hold_titles_and_descriptions(catalog: SqlCatalog) -> None:
    entries, total = list_entries(catalog, Query("q", "list"))
    assert total == len(entries) == 12
    assert (entries[0].name, entries[0].title, entries[0].labels) == (
        "contract-0.txt",
        "Title 0",
        "contract",
    )
    assert list(catalog.chunks([entries[0].first_key])) == [entries[0].first_key]


def test_a_large_collection_lists_the_documents_with_the_words(catalog: SqlCatalog) -> None:
    entries, total = list_entries(catalog, Query("q", "list"), ["contract"], limit=5)
    assert total == 12
    assert [one.name for one in entries] == [f"contract-{n}.txt" for n in range(3)]


def test_the_limits_of_a_query_hold(catalog: SqlCatalog) -> None:
    by_id = list_entries(catalog, Query("q", "list", document_ids=("d1", "d2")))
    by_upload = list_entries(catalog, Query("q", "list", upload_id="u1"))
    by_filter = list_entries(catalog, Query("q", "list", filter=match_any("year", [3, 4])))
    assert [[one.id for one in entries] for entries, _ in (by_id, by_upload, by_filter)] == [
        ["d1", "d2"],
        ["d5"],
        ["d3", "d4"],
    ]
    assert [total for _, total in (by_id, by_upload, by_filter)] == [2, 1, 2]


def test_a_deleted_document_is_not_listed(catalog: SqlCatalog) -> None:
    catalog.delete("d0")
    entries, total = list_entries(catalog, Query("q", "list"))
    assert total == 11
    assert "d0" not in {one.id for one in entries}
