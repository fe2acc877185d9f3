"""A collection gets the vectors of another embedder while the ones before are searched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, select

from ragstone.catalog import generations
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.generations import (
    Generation,
    GenerationCatalog,
    Reembedder,
    begin_generation,
    drop_generation,
    read_generations,
    switch_generation,
)
from ragstone.catalog.integrity import check_content
from ragstone.catalog.schema import chunk_vectors, chunks
from ragstone.cli.maintain import _embed_again
from ragstone.engine import Engine
from ragstone.errors import InputError, StoreError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import NewDocument, Vectors
from ragstone.testing import HashEmbedder
from ragstone.types import Chunk, Document

from ..conftest import settings_in

SHIPPED = {"name": "builtin", "model": ""}
QUESTION = "What is the code of gate 3?"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine with five documents, embedded without a model."""
    engine = open_engine(tmp_path)
    await engine.ingest(write_files(tmp_path, range(5)))
    yield engine
    engine.close()


def write_files(folder: Path, numbers: Sequence[int]) -> list[Path]:
    paths = [folder / f"{number}.txt" for number in numbers]
    for number, path in zip(numbers, paths, strict=True):
        path.write_text(f"The code of gate {number} is {number}812.")
    return paths


def list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def open_engine(folder: Path) -> Engine:
    return Engine(settings_in(folder / "data"), embedder=HashEmbedder())


def begin(engine: Engine, embed: object = None) -> Reembedder:
    """Begin to embed with the shipped model, which another process can build from its settings."""
    name = OnnxEmbedder().name
    generation = begin_generation(engine.catalog, "default", name, SHIPPED, None)
    return make_run(engine, generation, embed)


def make_run(engine: Engine, generation: Generation, embed: object = None) -> Reembedder:
    target = engine.for_generation(generation)
    return Reembedder(
        engine.catalog,
        generation,
        embed or target.embedder.embed,  # type: ignore[arg-type]  a stand-in that fails
        lambda: target.index.refresh("default"),
    )


async def find_names(engine: Engine, question: str = QUESTION) -> list[str]:
    return [hit.chunk.document_name for hit in await engine.search(question)]


def check_vectors(engine: Engine) -> None:
    """Every chunk has the vector of the embedder that is searched, in the catalog and the index."""
    embedder, index = engine.find_search_parts("default")
    changes = engine.catalog.changes("default", after=0, limit=1000)
    ranges = [one.keys for one in changes if one.kind == "add"]
    stored, vectors = engine.catalog.chunks_with_vectors(
        ranges, dimension=embedder.dimension, embedder=embedder.name
    )
    wanted = embedder.embed([chunk.contextual_text for chunk in stored])
    assert np.allclose(vectors, wanted, atol=2e-3)
    assert np.allclose(index.vectors("default", [one.key for one in stored]), wanted, atol=2e-3)
    assert index.counts("default").dense == len(stored) == engine.catalog.counts("default").chunks


def count_rows(engine: Engine) -> tuple[int, int]:
    """Count the chunks without a vector beside them, and the vectors in the second table."""
    with engine.catalog.read_transaction() as connection:
        empty = select(func.count()).where(func.length(chunks.c.embedding) == 0)
        second = select(func.count()).select_from(chunk_vectors)
        return connection.scalar(empty), connection.scalar(second)


async def test_questions_go_on_until_the_switch_and_after_it(engine: Engine) -> None:
    before = engine.catalog.embedder_of("default")
    run = begin(engine)
    assert run.fill() == 5
    assert engine.catalog.embedder_of("default") == before == "hash"
    assert (await find_names(engine))[0] == "3.txt"
    check_vectors(engine)
    run.switch()
    assert engine.catalog.embedder_of("default") == run.generation.embedder != "hash"
    assert (await find_names(engine))[0] == "3.txt"
    check_vectors(engine)


async def test_uploads_and_deletions_while_it_is_filled_and_after(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "_EMBED_CHUNKS", 2)
    monkeypatch.setattr(generations, "_BATCH_CHANGES", 2)
    run = begin(engine)
    embed, done = run.embed, 0
    by_name = {one.name: one.id for one in engine.documents()}

    def change_meanwhile(texts: Sequence[str]) -> Vectors:
        nonlocal done
        done += 1
        if done == 1:
            engine.intake.delete_document(by_name["1.txt"])
        return embed(texts)

    run.embed = change_meanwhile
    run.fill()
    await engine.ingest(write_files(tmp_path, [5, 6]))
    (tmp_path / "2.txt").write_text("The code of gate 2 is new: 777.")
    await engine.ingest([tmp_path / "2.txt"])
    assert (await find_names(engine, "What is the code of gate 6?"))[0] == "6.txt"
    run.switch()
    check_vectors(engine)
    names = {one.name for one in engine.documents()}
    assert names == {"0.txt", "2.txt", "3.txt", "4.txt", "5.txt", "6.txt"}
    assert (await find_names(engine, "What is the code of gate 6?"))[0] == "6.txt"
    # After the switch uploads are embedded with the new model.
    await engine.ingest(write_files(tmp_path, [7]))
    await engine.delete({one.name: one.id for one in engine.documents()}["5.txt"])
    check_vectors(engine)
    assert (await find_names(engine, "What is the code of gate 7?"))[0] == "7.txt"


async def test_it_can_be_taken_back_with_what_came_meanwhile(
    engine: Engine, tmp_path: Path
) -> None:
    begin(engine).switch()
    await engine.ingest(write_files(tmp_path, [5]))
    await engine.delete({one.name: one.id for one in engine.documents()}["0.txt"])
    assert not switch_generation(engine.catalog, "default"), "gate 5 has no old vector yet"
    other = read_generations(engine.catalog, "default").other
    assert other is not None
    run = make_run(engine, other)
    run.switch()
    assert run.count == 1
    assert engine.catalog.embedder_of("default") == "hash"
    check_vectors(engine)
    assert (await find_names(engine, "What is the code of gate 5?"))[0] == "5.txt"


async def test_the_generation_before_is_dropped(engine: Engine, tmp_path: Path) -> None:
    run = begin(engine)
    run.switch()
    await engine.ingest(write_files(tmp_path, [5]))
    assert drop_generation(engine.catalog, "default") == "hash"
    assert count_rows(engine) == (0, 0)
    assert read_generations(engine.catalog, "default").other is None
    engine.for_collection("default").index.rebuild("default")
    check_vectors(engine)
    assert (await find_names(engine))[0] == "3.txt"
    await engine.ingest(write_files(tmp_path, [6]))
    check_vectors(engine)
    folder = tmp_path / "data" / "index" / "default"
    assert not (folder / "manifest.json").exists()
    # And a third generation, made with the first embedder, in the same way.
    third = begin_generation(engine.catalog, "default", "hash", None, None)
    make_run(engine, third).switch()
    check_vectors(engine)


async def test_an_unused_generation_is_dropped(engine: Engine) -> None:
    run = begin(engine)
    run.fill()
    assert drop_generation(engine.catalog, "default") == run.generation.embedder
    assert count_rows(engine) == (0, 0)
    engine.index.rebuild("default")
    check_vectors(engine)
    with pytest.raises(InputError, match="one generation only"):
        switch_generation(engine.catalog, "default")


async def test_another_process_notices_the_switch(engine: Engine, tmp_path: Path) -> None:
    waiting = open_engine(tmp_path)
    assert (await find_names(waiting))[0] == "3.txt"
    begin(engine).switch()
    assert (await find_names(waiting))[0] == "3.txt"
    embedder, _ = waiting.find_search_parts("default")
    assert embedder.name == engine.catalog.embedder_of("default")
    waiting.close()


async def test_an_ingestion_under_way_is_stored_with_the_new_vectors(
    engine: Engine, tmp_path: Path
) -> None:
    run = begin(engine)
    run.fill()
    old, switched = engine.embedder.embed, []

    def switch_first(texts: Sequence[str]) -> Vectors:
        if not switched and any("gate 8" in text for text in texts):
            switched.append(True)
            run.switch()
        return old(texts)

    engine.embedder.embed = switch_first  # type: ignore[method-assign]
    report = await engine.ingest(write_files(tmp_path, [8]))
    assert switched
    assert [file.outcome for file in report.files] == ["added"]
    check_vectors(engine)
    assert (await find_names(engine, "What is the code of gate 8?"))[0] == "8.txt"


async def test_no_file_is_read_again(engine: Engine, tmp_path: Path) -> None:
    begin(engine).switch()
    report = await engine.ingest(list_files(tmp_path))
    assert [file.outcome for file in report.files] == ["unchanged"] * 5


async def test_a_run_that_was_stopped_goes_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "_EMBED_CHUNKS", 2)
    run = begin(engine)
    embed, seen = run.embed, []

    def fail_at_the_third(texts: Sequence[str]) -> Vectors:
        if len(seen) >= 2:
            raise KeyboardInterrupt
        seen.extend(texts)
        return embed(texts)

    run.embed = fail_at_the_third
    with pytest.raises(KeyboardInterrupt):
        run.fill()
    assert (await find_names(engine))[0] == "3.txt"
    check_vectors(engine)
    again = begin(engine)
    assert again.fill() == 3
    again.switch()
    check_vectors(engine)


async def test_uploads_that_never_end_wait_for_the_last_chunks(engine: Engine) -> None:
    run = begin(engine)
    number = iter(range(10, 1000))

    def upload() -> None:
        add_document(engine, f"{next(number)}.txt")
        engine.for_generation(run.generation).index.refresh("default")

    run.refresh = upload
    run.switch()
    assert engine.catalog.embedder_of("default") == run.generation.embedder


def add_document(engine: Engine, name: str) -> None:
    text = f"The code of gate {name} is here."
    embedder, _ = engine.find_search_parts("default")
    document = Document(
        id=name, collection="default", source=name, name=name, media_type="text/plain",
        sha256=name, text=text, chunk_count=1,
    )  # fmt: skip
    chunk = Chunk(name, 0, text, 0, len(text), name)
    new = NewDocument(document, (chunk,), embedder.embed([chunk.contextual_text]))
    engine.catalog.add([new], embedder=embedder.name)


def test_a_second_model_is_refused_until_the_first_is_dropped(engine: Engine) -> None:
    begin(engine)
    with pytest.raises(InputError, match="has a second generation already"):
        begin_generation(engine.catalog, "default", "third", None, None)
    with pytest.raises(InputError, match="is searched with 'hash' already"):
        begin_generation(engine.catalog, "default", "hash", None, None)


async def test_without_the_settings_of_the_embedder_it_is_refused(
    engine: Engine, tmp_path: Path
) -> None:
    other = Engine(settings_in(tmp_path / "data"))
    with pytest.raises(StoreError, match="was embedded with 'hash'"):
        await other.search(QUESTION)
    other.close()


async def test_a_deleted_collection_leaves_no_vectors(engine: Engine, tmp_path: Path) -> None:
    begin(engine).switch()
    await engine.delete_collection("default")
    assert count_rows(engine) == (0, 0)
    assert not list((tmp_path / "data" / "index" / "default").glob("@*"))
    await engine.ingest(list_files(tmp_path))
    assert engine.catalog.embedder_of("default") == "hash"
    check_vectors(engine)


def test_the_rate_is_not_exceeded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(generations.time, "sleep", slept.append)
    run = begin(engine)
    run.chunks_per_s = 0.5
    run.fill()
    assert 0 < sum(slept) <= 10


def find_damage(engine: Engine) -> dict[str, str]:
    assert isinstance(engine.catalog, SqlCatalog)
    found = check_content(engine.catalog.database, engine.originals, keeps_originals=True)
    return {one.subject: one.detail for one in found if one.state == "wrong"}


async def test_after_a_switch_the_new_vectors_are_checked_and_repaired(
    engine: Engine, tmp_path: Path
) -> None:
    run = begin(engine)
    run.switch()
    await engine.ingest(write_files(tmp_path, [5]))
    assert find_damage(engine) == {}
    with engine.catalog.write_transaction() as connection:
        damage = chunk_vectors.update().where(chunk_vectors.c.key == 2)
        connection.execute(damage.values(embedding=b"\0" * 768))
        connection.execute(chunk_vectors.delete().where(chunk_vectors.c.key == 6))
    assert find_damage(engine)["vectors of default"].startswith("2 damaged; run: ragstone reindex")
    _embed_again(engine, "default")
    assert engine.catalog.embedder_of("default") == run.generation.embedder, "not the one before"
    assert find_damage(engine) == {}
    engine.for_collection("default").index.rebuild("default")
    check_vectors(engine)


async def test_a_configured_embedder_takes_over_what_nobody_chose(
    engine: Engine, tmp_path: Path
) -> None:
    other = Engine(settings_in(tmp_path / "data"))
    for configured in (other, engine, other):
        _embed_again(configured, "default")
        assert configured.catalog.embedder_of("default") == configured.embedder.name
        check_vectors(configured)
    other.close()


async def test_a_killed_reindex_is_not_taken_for_a_choice(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*given: object) -> None:
        raise KeyboardInterrupt

    other = Engine(settings_in(tmp_path / "data"))
    with monkeypatch.context() as patch:
        patch.setattr(generations, "drop_generation", die)
        with pytest.raises(KeyboardInterrupt):
            _embed_again(other, "default")
    active = read_generations(engine.catalog, "default").active
    assert (active.embedder, active.is_chosen) == (other.embedder.name, False)
    _embed_again(engine, "default")
    assert engine.catalog.embedder_of("default") == "hash"
    check_vectors(engine)
    other.close()


def test_the_last_command_that_fills_a_generation_says_whether_it_was_chosen(
    engine: Engine,
) -> None:
    name = OnnxEmbedder().name
    for follows in (True, False, True):
        begin_generation(engine.catalog, "default", name, SHIPPED, None, follows_settings=follows)
        other = read_generations(engine.catalog, "default").other
        assert other is not None
        assert other.is_chosen is not follows


async def test_an_ingestion_embeds_only_a_little_twice_after_a_switch(tmp_path: Path) -> None:
    flags = {"ingest.batch_chunks": 1, "ingest.embed_threads": 1, "ingest.workers": 1}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    await engine.ingest(write_files(tmp_path, [0]))
    run = begin(engine)
    run.fill()
    old, texts_of_old, switched = engine.embedder.embed, [], []

    def switch_first(texts: Sequence[str]) -> Vectors:
        if not switched and any("gate 20 " in text for text in texts):
            switched.append(True)
            run.switch()
        texts_of_old.extend(text for text in texts if "gate" in text)
        return old(texts)

    engine.embedder.embed = switch_first  # type: ignore[method-assign]
    report = await engine.ingest(write_files(tmp_path, range(20, 60)))
    assert len(report.of("added")) == 40
    assert len(texts_of_old) < 20, "only what was under way"
    check_vectors(engine)
    engine.close()


async def test_a_dropped_generation_does_not_share_the_folder_of_the_other(engine: Engine) -> None:
    run = begin(engine)
    run.fill()
    second = GenerationCatalog(engine.catalog, run.generation.embedder)
    assert second.folder_of("default") == run.generation.folder
    drop_generation(engine.catalog, "default")
    assert second.folder_of("default") == run.generation.folder
    assert GenerationCatalog(engine.catalog, "hash").folder_of("default") == ""
    assert second.folder_of("new") == ""


async def test_a_deleted_document_leaves_both_indexes(engine: Engine, tmp_path: Path) -> None:
    def find_keys() -> set[int]:
        hits = engine.index.search_keyword("default", "code of gate", limit=99, k1=1.2, b=0.75)
        return {hit.key for hit in hits}

    run = begin(engine)
    run.switch()
    await engine.ingest(write_files(tmp_path, [5]))  # the index before lacks it from now on
    assert find_keys() == {1, 2, 3, 4, 5}
    await engine.delete({one.name: one.id for one in engine.documents()}["1.txt"])
    assert find_keys() == {1, 3, 4, 5}
    assert engine.index.counts("default").dense == 4
    check_vectors(engine)
    other = read_generations(engine.catalog, "default").other
    assert other is not None
    make_run(engine, other).switch()
    check_vectors(engine)
    assert find_keys() == {1, 3, 4, 5, 6}


async def test_a_document_is_erased_although_the_other_index_is_damaged(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(engine).switch()
    files = list((tmp_path / "data" / "index" / "default").glob("[!@]*/meta.json"))
    assert files
    for path in files:
        path.write_text("damaged")
    await engine.delete({one.name: one.id for one in engine.documents()}["1.txt"])
    assert "a deleted document is still in the index of 'default'" in caplog.text
    log = next((tmp_path / "data").glob("*-wal"))
    assert log.stat().st_size == 0, "the text is still in the write-ahead log"


async def test_other_settings_open_no_embedder(engine: Engine) -> None:
    run = begin(engine)
    name = run.generation.embedder
    assert engine._siblings[name].embedder.name == name
    opened = engine._siblings[name].embedder
    engine.apply_settings(engine.settings)
    assert engine._siblings[name].embedder is opened
    del engine._siblings[name].embedder
    engine.apply_settings(engine.settings)
    assert "embedder" not in vars(engine._siblings[name])
