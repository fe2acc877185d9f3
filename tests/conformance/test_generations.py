"""Test two generations of vectors on a real Qdrant: each has a collection of its own there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from ragstone.catalog.generations import drop_generation, read_generations
from ragstone.catalog.schema import index_terms
from ragstone.engine import Engine
from ragstone.errors import StoreBusyError
from ragstone.index import remote
from ragstone.index.chunk_store import hash_term
from ragstone.index.qdrant import QdrantIndex
from ragstone.testing import HashEmbedder

from ..catalog.test_reembed import begin, check_vectors, find_names, make_run, write_files
from ..conftest import settings_in


@pytest.fixture
async def engine(tmp_path: Path, qdrant_url: str) -> AsyncIterator[Engine]:
    flags = {
        "index.kind": "qdrant",
        "index.qdrant_url": qdrant_url,
        "index.qdrant_prefix": f"g{abs(hash(tmp_path)) % 10**10}_",
        "index.qdrant_timeout_s": 30,
    }
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    await engine.ingest(write_files(tmp_path, range(5)))
    yield engine
    engine.close()


async def test_a_generation_on_qdrant_is_filled_used_taken_back_and_dropped(
    engine: Engine, tmp_path: Path
) -> None:
    run = begin(engine)
    run.fill()
    await engine.ingest(write_files(tmp_path, [5]))
    assert (await find_names(engine, "What is the code of gate 5?"))[0] == "5.txt"
    engine.index.rebuild("default")  # it must not take the other generation for a leftover
    run.switch()
    check_vectors(engine)
    assert (await find_names(engine, "What is the code of gate 5?"))[0] == "5.txt"
    await engine.ingest(write_files(tmp_path, [6]))
    assert isinstance(engine.index, QdrantIndex)
    assert engine.index._points.count("default", 0) == 6
    await engine.delete({one.name: one.id for one in engine.documents()}["0.txt"])
    assert engine.index._points.count("default", 0) == 5, "it is deleted from both"
    progress = engine.index._progress.read("default")
    assert progress is not None
    assert progress.chunk_count == 5
    check_vectors(engine)
    other = read_generations(engine.catalog, "default").other
    assert other is not None
    make_run(engine, other).switch()
    assert engine.catalog.embedder_of("default") == "hash"
    check_vectors(engine)
    second = engine.for_generation(run.generation).index
    assert drop_generation(engine.catalog, "default") == run.generation.embedder
    assert isinstance(second, QdrantIndex)
    engine.index.delete_others("default")
    assert second._points.count("default", 0) == 0
    check_vectors(engine)
    assert (await find_names(engine, "What is the code of gate 6?"))[0] == "6.txt"


async def test_a_kill_between_count_and_deletion_counts_a_chunk_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(engine)
    run.switch()
    index = engine.index
    assert isinstance(index, QdrantIndex)
    before = index._progress.read("default")
    assert before is not None

    def die(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index._points, "delete", die)
        with pytest.raises(KeyboardInterrupt):
            engine.intake.delete_document(engine.documents()[0].id)
    index.remove_chunks("default", [range(1, 2)])  # again: it takes nothing more
    after = index._progress.read("default")
    assert after is not None
    assert (before.chunk_count, after.chunk_count) == (5, 4)
    assert index._points.count("default", 0) == 4
    other = read_generations(engine.catalog, "default").other
    assert other is not None
    make_run(engine, other).switch()  # the change that removes it is applied
    progress = index._progress.read("default")
    assert progress is not None
    assert (progress.chunk_count, progress.total_length) == (4, after.total_length)
    (term,) = index._progress.count_chunks("default", [hash_term("code")]).values()
    assert term == 4
    with engine.catalog.read_transaction() as connection:
        marks = select(func.count()).where(index_terms.c.term <= remote._FIRST_MARK)
        assert connection.scalar(marks) == 0
    check_vectors(engine)


async def test_an_early_removal_waits_for_its_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = engine.index
    assert isinstance(index, QdrantIndex)
    monkeypatch.setattr(remote, "_LEASE_S", 0.3)
    assert index._progress.acquire("default", "another process", lease_s=30)
    with pytest.raises(StoreBusyError, match="Another process is updating"):
        index.remove_chunks("default", [range(1, 2)])
    index._progress.release("default", "another process")
    index.remove_chunks("default", [range(1, 2)])
    assert index._points.count("default", 0) == 4
