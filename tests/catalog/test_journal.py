"""Test that an invalid entry does not affect those written with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ragstone.catalog import journal
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.journal import JournalWriter
from ragstone.errors import InputError
from ragstone.types import Answer

from ..patience import LONG_S


def entry(number: int, text: str) -> journal.Entry:
    trace = {"started_at": 0.0, "spans": []}
    answer = Answer(str(number), "Is it so?", "default", text, "answered", trace=trace)
    return journal.build_entry(answer, query_log="full")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for every entry, also on a busy machine."""
    monkeypatch.setattr("ragstone.catalog.journal._MAX_WAIT_S", LONG_S)


async def test_only_the_caller_of_an_invalid_entry_gets_the_error(tmp_path: Path) -> None:
    catalog = SqlCatalog.in_directory(tmp_path)
    writer = JournalWriter(catalog)
    texts = ["Yes.", "No\0.", "Perhaps.", "Never."]
    written = await asyncio.gather(
        *(writer.write(entry(number, text)) for number, text in enumerate(texts)),
        return_exceptions=True,
    )
    assert [type(one) for one in written] == [type(None), InputError, type(None), type(None)]
    assert {one["answer"] for one in catalog.queries()} == {"Yes.", "Perhaps.", "Never."}
    catalog.close()
