"""Folders into a collection: only what changed is read, only what is new is embedded."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import IngestError, InputError, NotFoundError
from ragstone.ingest.jobs import Upload
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors
from ragstone.reports import FileProgress, IngestedFile, IngestReport
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S, until


def outcomes(report: IngestReport) -> dict[str, str]:
    return {file.name: file.outcome for file in report.files}


def write_folder(folder: Path, count: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        sections = "".join(
            f"## Section {part}\n\nShelf {number}-{part} holds {number * 10 + part} boxes.\n\n"
            for part in range(4)
        )
        (folder / f"{number}.md").write_text(f"# Store {number}\n\n{sections}")
    return folder


async def test_a_second_run_over_an_unchanged_folder_reads_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "docs")
    first = await engine.ingest([folder])
    assert set(outcomes(first).values()) == {"added"}
    assert first.embedded_chunks == first.chunk_count == 12
    monkeypatch.setattr("ragstone.ingest.parser.pool._idle.take", None)  # no process may be started
    second = await engine.ingest([folder])
    assert set(outcomes(second).values()) == {"unchanged"}
    assert (second.embedded_chunks, second.chunk_count) == (0, 12)


async def test_a_touched_file_with_the_same_bytes_is_unchanged(
    engine: Engine, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "docs")
    await engine.ingest([folder])
    os.utime(folder / "1.md", ns=(1, 1))
    report = await engine.ingest([folder])
    assert set(outcomes(report).values()) == {"unchanged"}
    assert report.embedded_chunks == 0


async def test_only_the_changed_chunks_of_a_changed_file_are_embedded(
    engine: Engine, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "docs")
    await engine.ingest([folder])
    before = engine.documents()
    changed = (folder / "1.md").read_text().replace("Shelf 1-2 holds 12", "Shelf 1-2 holds 99")
    (folder / "1.md").write_text(changed)
    report = await engine.ingest([folder])
    assert outcomes(report) == {"0.md": "unchanged", "1.md": "updated", "2.md": "unchanged"}
    assert report.embedded_chunks == 1
    assert len(engine.documents()) == len(before)
    texts = {hit.chunk.text for hit in await engine.search("shelf 1-2 boxes", top_k=100)}
    assert "Shelf 1-2 holds 99 boxes." in texts
    assert "Shelf 1-2 holds 12 boxes." not in texts


async def test_the_same_bytes_twice_are_one_document_in_two_places(
    engine: Engine, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "docs", 1)
    shutil.copy(folder / "0.md", folder / "copy.md")
    report = await engine.ingest([folder])
    assert len({file.document_id for file in report.files}) == 1
    assert report.embedded_chunks == 4
    assert len(engine.documents()) == 1
    (folder / "0.md").unlink()
    await engine.ingest([folder], prune=True)
    assert len(engine.documents()) == 1, "the copy still holds it"
    shutil.copy(folder / "copy.md", tmp_path / "third.md")
    (known,) = (await engine.ingest([tmp_path / "third.md"])).files
    assert known.outcome == "unchanged", "its bytes are stored already"
    assert known.hint == "The same content is already stored as '0.md'."


async def test_prune_removes_what_is_gone_and_nothing_else(engine: Engine, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "docs")
    other = write_folder(tmp_path / "other", 1)
    (other / "0.md").write_text("The other folder has one file.")
    await engine.ingest([folder, other])
    (folder / "2.md").unlink()
    (other / "0.md").unlink()
    report = await engine.ingest([folder], prune=True)
    assert [file.name for file in report.of("removed")] == [str(folder / "2.md")]
    names = {document.name for document in engine.documents()}
    assert names == {"0.md", "1.md"}
    assert len(engine.documents()) == 3
    assert not [h for h in await engine.search("shelf 2-1") if "Shelf 2" in h.chunk.text]


async def test_a_whole_folder_that_is_gone_can_be_pruned(engine: Engine, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "docs")
    await engine.ingest([folder])
    shutil.rmtree(folder)
    report = await engine.ingest([folder], prune=True)
    assert len(report.of("removed")) == 3
    assert engine.documents() == []


async def test_a_pattern_stands_for_the_files_that_fit_it(engine: Engine, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "docs")
    report = await engine.ingest([folder / "[01].md"])
    assert set(outcomes(report)) == {"0.md", "1.md"}


async def test_the_members_of_an_archive_are_documents_that_follow_it(
    engine: Engine, tmp_path: Path
) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../evil.txt", "The first member.")
        file.writestr("b.txt", "The second member.")
    report = await engine.ingest([archive])
    assert outcomes(report) == {"a.zip/evil.txt": "added", "a.zip/b.txt": "added"}
    assert not (tmp_path.parent.parent / "evil.txt").exists()
    assert (await engine.ingest([archive])).files[0].outcome == "unchanged"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("b.txt", "The second member, changed.")
    report = await engine.ingest([archive])
    assert outcomes(report) == {"a.zip/b.txt": "updated"}
    assert [document.name for document in engine.documents()] == ["a.zip/b.txt"]


async def test_a_bad_file_is_reported_and_the_others_go_on(engine: Engine, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "docs", 1)
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 cut off")
    report = await engine.ingest([folder])
    assert outcomes(report) == {"0.md": "added", "broken.docx": "failed"}
    (failed,) = report.of("failed")
    assert failed.error
    assert failed.hint
    again = await engine.ingest([folder])
    assert again.of("failed")[0].error == failed.error, "known without reading it again"
    statuses = {document.name: document.status for document in engine.documents()}
    assert statuses == {"0.md": "indexed", "broken.docx": "failed"}
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 cut off elsewhere")
    await engine.ingest([folder])
    (folder / "broken.docx").unlink()
    (folder / "broken.txt").write_text("Mended.")
    await engine.ingest([folder], prune=True)
    assert {document.name for document in engine.documents()} == {"0.md", "broken.txt"}


async def test_a_changed_file_that_is_broken_leaves_its_old_version_in_place(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"colour": "The door is green."}')
    await engine.ingest([file])
    file.write_text('{"colour": ')
    assert (await engine.ingest([file])).of("failed")
    assert "green" in (await engine.search("colour of the door"))[0].chunk.text
    file.write_text('{"colour": "The door is blue."}')
    await engine.ingest([file])
    assert [document.status for document in engine.documents()] == ["indexed"]


async def test_metadata_of_the_caller_stands_beside_that_of_the_file(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "a.md"
    file.write_text(
        "---\ntitle: Rules\nyear: 2024\n---\nThe rules of the house are short and easy to keep.\n"
    )
    await engine.ingest([file])
    report = await engine.ingest([file], metadata={"tags": ["house"], "year": 2025})
    assert report.embedded_chunks == 0, "the text is the same"
    (document,) = engine.documents()
    assert dict(document.metadata) == {
        "title": "Rules",
        "year": 2025,
        "language": "en",
        "tags": ["house"],
    }
    assert (await engine.ingest([file])).files[0].outcome == "unchanged"
    same = await engine.ingest([file], metadata={"tags": ["house"], "year": 2025})
    assert same.files[0].outcome == "unchanged", "said again, nothing is read again"
    assert dict(engine.documents()[0].metadata)["tags"] == ["house"]


async def test_a_run_that_was_stopped_is_taken_up_again(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    folder = write_folder(tmp_path / "docs", 30)
    settings = settings_in(tmp_path / "data", **{"ingest.batch_chunks": 4})
    engine = Engine(settings, embedder=embedder)
    task: asyncio.Task[IngestReport]

    def stop_after_a_few(outcome: IngestedFile, done: int, total: int) -> None:
        if done == 3:
            loop.call_soon_threadsafe(task.cancel)

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(engine.ingest([folder], progress=stop_after_a_few))
    with pytest.raises(asyncio.CancelledError):
        await task
    engine.close()
    engine = Engine(settings, embedder=embedder)
    stored = len(engine.documents())
    assert 3 <= stored < 30
    report = await engine.ingest([folder])
    assert len(report.of("unchanged")) >= stored
    assert len(engine.documents()) == 30
    engine.close()


# The other thread goes on while one waits for the gate.
GATED = {"ingest.batch_chunks": 64, "ingest.embed_threads": 2}
SHORT = {"-first.zip/short.txt", "0.md", "1.md", "2.md"}


class GatedEmbedder(HashEmbedder):
    """Embeds the last texts of the long document, and a locked one, only after it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.at_locked = threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        is_locked = any("locked" in text for text in texts)
        if is_locked:
            self.at_locked.set()
        if is_locked or any("Row 199 " in text for text in texts):
            assert self.opened.wait(LONG_S)
        return super().embed(texts)


def write_long_and_short(folder: Path) -> Path:
    write_folder(folder)
    rows = "\n\n".join(f"Row {number} is empty. " * 20 for number in range(200))
    with zipfile.ZipFile(folder / "-first.zip", "w") as archive:
        archive.writestr("long.txt", rows)
        archive.writestr("short.txt", "The gate is green.")
    (folder / "-second.txt").write_text(rows)  # a copy of what is not stored yet
    return folder


async def test_short_documents_are_stored_while_a_long_one_is_embedded(tmp_path: Path) -> None:
    embedder = GatedEmbedder()
    seen: list[FileProgress] = []
    async with Engine(settings_in(tmp_path / "data", **GATED), embedder=embedder) as engine:
        folder = write_long_and_short(tmp_path / "docs")
        run = asyncio.create_task(engine.ingest([folder], stage=seen.append))
        await until(lambda: len(engine.documents()) >= 4)
        names = {document.name for document in engine.documents()}
        assert names == SHORT
        assert not [hit for hit in await engine.search("Row 7") if "Row" in hit.chunk.text]
        embedder.opened.set()
        report = await run
        found = outcomes(report)
        assert len(found) == 6
        assert set(found.values()) == {"added"}
        assert len(engine.documents()) == 5, "the copy is the same document"
        again = await engine.ingest([folder])
        assert set(outcomes(again).values()) == {"unchanged"}
    assert FileProgress("0.md", "reading") in seen
    counted = [one for one in seen if one.name.endswith("long.txt") and one.chunk_count]
    assert {one.chunk_count for one in counted} == {report.of("added")[-1].chunk_count}


async def test_a_stopped_run_stores_what_is_ready_and_waits_for_nothing(tmp_path: Path) -> None:
    embedder = GatedEmbedder()
    async with Engine(settings_in(tmp_path / "data", **GATED), embedder=embedder) as engine:
        folder = write_long_and_short(tmp_path / "docs")
        (folder / "z.txt").write_text("The last shelf is locked.")
        run = asyncio.create_task(engine.ingest([folder]))
        # The thread that embedded all other files is at the last one.
        await until(embedder.at_locked.is_set)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert {document.name for document in engine.documents()} == SHORT
        embedder.opened.set()
        report = await engine.ingest([folder])
        assert len(report.of("unchanged")) + len(report.of("added")) == len(report.files)
        assert len(engine.documents()) == 6


async def test_a_failure_is_tried_again_with_another_limit(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("The gate is green. " * 100)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        with archive.open("c.zip", "w") as inner, zipfile.ZipFile(inner, "w") as nested:
            nested.writestr("d.txt", "The dome is white.")
        archive.writestr("e.txt", "The hall is red.")

    async def ingest(**limits: float) -> dict[str, str]:
        settings = settings_in(
            tmp_path / "data", **{f"ingest.{name}": value for name, value in limits.items()}
        )
        async with Engine(settings, embedder=HashEmbedder()) as engine:
            return outcomes(await engine.ingest([file, tmp_path / "b.zip"]))

    first = await ingest(max_file_mb=0.001, max_depth=0)
    assert set(first.values()) == {"failed"}
    assert (await ingest(max_file_mb=0.001, max_depth=0)) == first
    assert (await ingest(max_depth=0))["a.txt"] == "added"
    assert (await ingest())["b.zip/c.zip/d.txt"] == "added"


async def test_a_new_version_of_an_upload_that_failed_is_read(
    engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"gate": ')
    assert (await engine.ingest_uploads([Upload(path, "a.json")])).of("failed")
    path.write_text('{"gate": "green"}')
    assert (await engine.ingest_uploads([Upload(path, "a.json")])).of("added")


@pytest.mark.parametrize(("days", "is_readable"), [(30, True), (0, False)])
async def test_an_old_version_is_readable_until_it_expires(
    tmp_path: Path, embedder: OnnxEmbedder, days: int, is_readable: bool
) -> None:
    settings = settings_in(tmp_path / "data", **{"ingest.old_version_days": days})
    async with Engine(settings, embedder=embedder) as engine:
        file = tmp_path / "a.txt"
        file.write_text("The gate code is 1111.")
        (first,) = (await engine.ingest([file])).files
        file.write_text("The gate code is 2222.")
        await engine.ingest([file])
        if is_readable:
            assert "1111" in engine.catalog.document(first.document_id or "").text
        else:
            with pytest.raises(NotFoundError):
                engine.catalog.document(first.document_id or "")
        assert [document.chunk_count for document in engine.documents()] == [1]


async def test_a_pdf_keeps_the_boxes_of_its_lines(engine: Engine) -> None:
    from ..conftest import SAMPLES

    await engine.ingest([SAMPLES / "contracts/lease-of-the-ridge.pdf"])
    (document,) = engine.documents()
    text = engine.catalog.document(document.id).text
    lines = engine.records.lines(document.id)
    assert len(lines) > 50
    assert all(text[line.start : line.end].strip() for line in lines)
    assert {line.page for line in lines} == set(range(1, document.metadata["pages"] + 1))


async def test_a_path_that_is_not_there_is_named(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="no file or folder"):
        await engine.ingest([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(IngestError, match="holds no documents"):
        await engine.ingest([tmp_path / "empty"])


async def test_an_empty_source_switches_the_one_of_the_settings_off(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "data", **{"ingest.source": "berlin"})
    engine = Engine(settings, embedder=HashEmbedder())
    path = tmp_path / "a.txt"
    path.write_text("The gate is green.")
    await engine.ingest([path], collection="set")
    await engine.ingest([path], collection="off", source="")
    assert [one.source for one in engine.documents("set")] == [f"berlin:{path}"]
    assert [one.source for one in engine.documents("off")] == [str(path)]
    engine.close()


async def test_equal_paths_of_two_machines_do_not_meet(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    folder = tmp_path / "docs"
    folder.mkdir()

    async def ingest(source: str, *texts: str) -> IngestReport:
        """Read the folder as it is on one machine."""
        for path in folder.iterdir():
            path.unlink()
        for number, text in enumerate(texts):
            (folder / f"{number}.txt").write_text(text)
        return await engine.ingest([folder], source=source or None, prune=True)

    def list_texts() -> set[str]:
        return {engine.catalog.document(one.id).text for one in engine.documents()}

    await ingest("berlin", "The gate is green.", "Equal on both.")
    report = await ingest("lyon", "The gate is red.", "Equal on both.")
    assert outcomes(report) == {"0.txt": "added", "1.txt": "unchanged"}
    await ingest("", "The gate has no place.")
    all_texts = {"The gate is green.", "The gate is red.", "The gate has no place."}
    assert list_texts() == {*all_texts, "Equal on both."}
    report = await ingest("berlin", "The gate is blue.")
    assert outcomes(report) == {"0.txt": "updated", f"berlin:{folder}/1.txt": "removed"}
    assert list_texts() == {*all_texts - {"The gate is green."}, "The gate is blue.",
                            "Equal on both."}  # fmt: skip
    blue = next(one for one in engine.documents() if one.source.startswith("berlin:"))
    assert blue.source == f"berlin:{folder}/0.txt"
    assert engine.original(engine.catalog.document(blue.id)) == folder / "0.txt"
    for name in ("x", "upload", "a:b", "a/b", "-a"):
        with pytest.raises(InputError, match="cannot be the name of a source"):
            await ingest(name, "No.")
    engine.close()
