"""`ragstone ingest`: what is said with the files, and following a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragstone.cli.ingest import _watch, format_rates, parse_metadata
from ragstone.cli.pace import Pace
from ragstone.engine import Engine
from ragstone.errors import SettingsError
from ragstone.reports import FileProgress, IngestedFile, IngestReport
from ragstone.settings import Settings

from ..patience import LONG_S, wait_until
from .run import call, environment


def test_values_of_metadata_are_numbers_and_truth_values_where_they_look_so() -> None:
    assert parse_metadata(["a", "b"], ["year=2026", "share=0.5", "draft=true", "by=Ada = Co"]) == {
        "year": 2026,
        "share": 0.5,
        "draft": True,
        "by": "Ada = Co",
        "tags": ["a", "b"],
    }


@pytest.mark.parametrize("pair", ["year", "=2026"])
def test_metadata_without_a_name_or_value_is_refused(pair: str) -> None:
    with pytest.raises(SettingsError, match="has no value"):
        parse_metadata([], [pair])


def test_the_pace_counts_what_was_read_and_guesses_the_rest() -> None:
    pace = Pace()
    pace.count(IngestedFile("a", "added", "1", 10), 1, 4)
    pace.count(IngestedFile("b", "unchanged", "2", 90), 2, 4)
    pace._begun -= 2
    line = pace.format_line()
    assert line.startswith("file 3 of 4 · 1 document, 0.5/s · 5 chunks/s · about 2 s left")
    pace.note(FileProgress("c", "embedding", 90, 140))
    pace._embedding_since -= 9
    assert "50 chunks/s · c: 90 of 140 chunks · about 5 s left" in pace.format_line()


def test_one_long_document_shows_its_chunks_and_the_rest() -> None:
    pace = Pace()
    pace.note(FileProgress("a", "embedding", 50, 150))
    pace._begun -= 2
    pace._embedding_since -= 2
    assert pace.get_progress() == (50, 150)
    assert pace.format_line() == "25 chunks/s · a: 50 of 150 chunks · about 4 s left"


def test_a_run_says_how_fast_it_was_and_what_it_took() -> None:
    added = (IngestedFile("a", "added", "1", 10), IngestedFile("b", "updated", "2", 30))
    report = IngestReport("c", added, embedded_chunks=20, seconds=4.0, peak_bytes=500_000_000)
    assert format_rates(report) == " · 0.5 documents/s · 5.0 chunks/s · peak 500 MB"
    assert format_rates(IngestReport("c", (IngestedFile("a", "unchanged"),), seconds=1.0)) == ""


def test_a_run_counts_the_chunks_of_the_collection_and_names_what_it_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("a.txt", "blob.bin", "photo.jpg"):
        (tmp_path / "docs" / name).write_text(f"The gate is green, says {name}.")
    done = call("ingest", "docs/a.txt", "-d", "data", cwd=tmp_path)
    assert done.stdout.startswith("1 file: 1 added · 1 chunk in 'default' · 1 embedded")
    (tmp_path / "b.txt").write_text("The dome is white.")
    done = call("ingest", "b.txt", "-d", "data", cwd=tmp_path)
    assert done.stdout.startswith("1 file: 1 added · 2 chunks in 'default' · 1 embedded")
    done = call("ingest", "docs", "-d", "data", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == (
        "2 files left out, because the type is not read: blob.bin, photo.jpg"
    )


def test_a_few_words_do_not_tell_the_language_of_the_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hola, com estàs avui? Tot va bé a casa nostra.")
    assert "hint:" not in call("ingest", "a.txt", "-d", "data", cwd=tmp_path).stdout
    (tmp_path / "b.txt").write_text("Hola, com estàs avui? Tot va bé a casa nostra. " * 8)
    done = call("ingest", "b.txt", "-d", "data", cwd=tmp_path)
    assert "does not read (Catalan)" in done.stdout


def test_before_the_first_file_ends_no_time_is_guessed() -> None:
    pace = Pace()
    assert pace.format_line() == "reading "
    assert pace.get_progress() == (0, None)
    pace.count(IngestedFile("all.zip/a.txt", "added", "d", 3), 0, 1)
    assert "left" not in pace.format_line()


def test_a_watched_file_that_fails_is_not_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.txt").write_text("x" * 2000)
    settings = Settings(
        data={"directory": tmp_path / "data"},  # type: ignore[arg-type]
        ingest={"max_file_mb": 0.001},  # type: ignore[arg-type]
    )
    seen = []
    with Engine(settings) as engine:

        def sleep(_seconds: float) -> None:
            seen.append([document.created_at for document in engine.documents()])
            if len(seen) > 3:
                raise KeyboardInterrupt

        clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
        monkeypatch.setattr("ragstone.cli.ingest.time", clock)
        with pytest.raises(KeyboardInterrupt):
            _watch(engine, [tmp_path / "large.txt"], "default", {"prune": True}, set(), json=False)
    assert seen[0] == []
    assert seen[1]
    assert seen[1] == seen[2] == seen[3]


@pytest.mark.slow
def test_a_watched_folder_is_followed_until_it_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("The gate code is 1111.")
    with (tmp_path / "out.txt").open("w") as out:
        running = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "ragstone",
                "ingest",
                str(folder),
                "--watch",
                "--data",
                str(tmp_path / "data"),
            ],
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=environment(PYTHONUNBUFFERED="1"),
        )
        try:
            wait_for(tmp_path / "out.txt", "1 added")
            (folder / "a.txt").write_text("The gate code is 22222.")
            (folder / "b.txt").write_text("The café is closed.")
            wait_for(tmp_path / "out.txt", "1 updated")
            (folder / "b.txt").unlink()
            wait_for(tmp_path / "out.txt", "1 removed")
        finally:
            os.kill(running.pid, signal.SIGINT)
            code = running.wait(LONG_S)
    assert code == 130


def wait_for(file: Path, words: str) -> None:
    wait_until(lambda: words in file.read_text())
