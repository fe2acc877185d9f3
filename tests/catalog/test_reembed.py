"""A collection gets the vectors of another embedder: wholly, or it stays refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragstone.catalog import reembed
from ragstone.catalog.reembed import embed_collection_again
from ragstone.engine import Engine
from ragstone.errors import StoreBusyError, StoreError
from ragstone.protocols import Vectors
from ragstone.testing.fakes import HashEmbedder

from ..conftest import settings_in


class OtherEmbedder(HashEmbedder):
    """Another model: other vectors, and more numbers in each."""

    name = "hash-v2"

    def __init__(self) -> None:
        super().__init__(128)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A data directory with five documents, embedded with the first model."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"The code of gate {number} is {number}812.")
    engine = open_engine(tmp_path, HashEmbedder())
    await engine.ingest(list_files(tmp_path))
    engine.close()
    return tmp_path


def list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def open_engine(folder: Path, embedder: HashEmbedder) -> Engine:
    return Engine(settings_in(folder / "data"), embedder=embedder)


def embed_again(engine: Engine, embed: object = None) -> int:
    return embed_collection_again(
        engine.catalog,
        "default",
        engine.embedder.name,
        embed or engine.embedder.embed,  # type: ignore[arg-type]  a stand-in that fails
        lambda: engine.index.rebuild("default"),
    )


def list_vectors(engine: Engine) -> Vectors:
    keys = list(range(1, 6))
    return engine.index.vectors("default", keys)


async def test_it_is_refused_before_and_searched_afterwards(folder: Path) -> None:
    engine = open_engine(folder, OtherEmbedder())
    with pytest.raises(StoreError, match="with 'hash', not with 'hash-v2'") as refused:
        await engine.search("What is the code of gate 3?")
    assert "ragstone reindex --embed --collection default" in refused.value.hint
    assert embed_again(engine) == 5
    hits = await engine.search("What is the code of gate 3?")
    assert hits[0].chunk.document_name == "3.txt"
    texts = [engine.catalog.chunks([key])[key].contextual_text for key in range(1, 6)]
    assert np.allclose(list_vectors(engine), engine.embedder.embed(texts), atol=1e-3)
    engine.close()


async def test_no_file_is_read_again(folder: Path) -> None:
    engine = open_engine(folder, OtherEmbedder())
    embed_again(engine)
    report = await engine.ingest(list_files(folder))
    assert [file.outcome for file in report.files] == ["unchanged"] * 5
    engine.close()


async def test_a_run_that_was_stopped_is_refused_and_continues(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembed, "_BATCH_CHUNKS", 2)
    engine = open_engine(folder, OtherEmbedder())
    seen: list[str] = []

    def fail_at_the_third(texts: Sequence[str]) -> Vectors:
        if len(seen) >= 2:
            raise KeyboardInterrupt
        seen.extend(texts)
        return engine.embedder.embed(texts)

    with pytest.raises(KeyboardInterrupt):
        embed_again(engine, fail_at_the_third)
    engine.close()
    for embedder in (OtherEmbedder(), HashEmbedder()):
        engine = open_engine(folder, embedder)
        with pytest.raises(StoreError, match="'hash-v2 up to chunk 2'"):
            await engine.search("What is the code of gate 3?")
        engine.close()
    engine = open_engine(folder, OtherEmbedder())
    assert embed_again(engine) == 3
    assert (await engine.search("the code of gate 0"))[0].chunk.document_name == "0.txt"
    engine.close()


async def test_an_engine_that_is_open_notices(folder: Path) -> None:
    waiting = open_engine(folder, OtherEmbedder())
    with pytest.raises(StoreError):
        await waiting.search("What is the code of gate 3?")
    worker = open_engine(folder, OtherEmbedder())
    embed_again(worker)
    worker.close()
    assert await waiting.search("What is the code of gate 3?")
    waiting.close()


def test_two_runs_at_once_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed, "_BATCH_CHUNKS", 2)
    engine = open_engine(folder, OtherEmbedder())
    begun: list[int] = []

    def start_a_second_run(texts: Sequence[str]) -> Vectors:
        begun.append(len(texts))
        if len(begun) == 2:  # the first call only sees whether the embedder answers
            embed_again(engine)
        return engine.embedder.embed(texts)

    with pytest.raises(StoreBusyError, match="another process"):
        embed_again(engine, start_a_second_run)
    engine.close()


def test_an_embedder_that_does_not_answer_costs_nothing(folder: Path) -> None:
    def fail(texts: Sequence[str]) -> Vectors:
        raise ConnectionError("nobody listens")

    other = open_engine(folder, OtherEmbedder())
    with pytest.raises(ConnectionError):
        embed_again(other, fail)
    stored = other.catalog.embedder_of("default")
    assert stored is not None
    assert "up to chunk" not in stored
    other.close()
