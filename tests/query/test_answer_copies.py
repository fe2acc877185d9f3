"""Copies of one text do not crowd out what else there is to find."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in

QUESTION = "How long is the notice period of the lease?"
OTHERS = {
    "writing.txt": "Notice of the lease is given in writing.",
    "early.txt": "A lease may end early by agreement.",
    "answer.txt": "The landlord answers a notice within ten days.",
    "rent.txt": "Rent is due until the notice takes effect.",
}


@pytest.fixture
async def leases(tmp_path: Path, embedder: OnnxEmbedder) -> AsyncIterator[Engine]:
    for number in range(30):
        text = "The notice period of the lease is three months." + " " * number
        (tmp_path / f"lease{number}.txt").write_text(text)
    for name, text in OTHERS.items():
        (tmp_path / name).write_text(text)
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    await engine.ingest([tmp_path / "*.txt"])
    yield engine
    engine.close()


async def test_where_copies_take_the_first_ranks_all_candidates_are_read(leases: Engine) -> None:
    hits, run = await leases.search_traced(QUESTION, top_k=5)
    names = {hit.chunk.document_name for hit in hits}
    assert len(hits) == 5
    assert set(OTHERS) < names
    stages = [stage["stage"] for stage in run.trace.waterfall.as_dict()["stages"]]
    assert len(stages) == len(set(stages))


async def test_where_there_are_enough_hits_the_search_runs_once(leases: Engine) -> None:
    _, run = await leases.search_traced(QUESTION, top_k=1)
    assert [span.stage for span in run.trace.spans].count("fuse") == 1
