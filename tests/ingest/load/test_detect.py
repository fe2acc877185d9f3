"""The right loader is found by content first, by name second."""

from __future__ import annotations

import pytest

from ragstone.errors import IngestError
from ragstone.ingest.load.detect import known_suffixes, load


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.txt", "text/plain"), ("A.TXT", "text/plain"), ("b.md", "text/markdown")],
)
def test_a_suffix_names_the_loader(name: str, media_type: str) -> None:
    assert load(b"Some text.", name).media_type == media_type


@pytest.mark.parametrize(
    ("content", "name"),
    [(b"hello", "x.pdf"), (b"", "x.txt"), (b" \n ", "x.md"), (b"%PDF-1.4 cut off", "x.txt")],
)
def test_what_cannot_be_read_is_refused_with_a_hint(content: bytes, name: str) -> None:
    with pytest.raises(IngestError) as refused:
        load(content, name)
    assert refused.value.message
    assert refused.value.hint


def test_the_first_types_are_known() -> None:
    assert {".txt", ".md", ".pdf"} <= known_suffixes()
