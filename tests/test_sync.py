"""The library without an event loop, and with a directory in place of settings."""

from __future__ import annotations

from pathlib import Path

from ragstone import Engine


def test_a_path_and_plain_calls_are_enough(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("# Gate\n\nThe gate is painted green every spring.\n")
    with Engine(tmp_path / "data") as engine:
        report = engine.ingest_sync(tmp_path / "gate.md")
        hits = engine.search_sync("What colour is the gate?")
        answer = engine.ask_sync("What colour is the gate?")
    assert len(report.of("added")) == 1
    assert hits[0].chunk.document_name == "gate.md"
    assert "green" in answer.text
    assert (tmp_path / "data").is_dir()


def test_a_path_may_be_text(tmp_path: Path) -> None:
    assert Engine(str(tmp_path)).settings.data.directory == tmp_path
