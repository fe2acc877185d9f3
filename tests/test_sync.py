"""The library without an event loop, and with a directory in place of settings."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ragstone import Engine
from ragstone.errors import InputError, StoreError
from ragstone.threads import background_loop

from .conftest import settings_in
from .patience import LONG_S


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


def test_a_part_that_runs_in_a_plain_call_may_make_one_itself(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("# Gate\n\nThe gate is painted green every spring.\n")
    found: list[str] = []

    async def search(engine: Engine) -> None:
        found.extend(hit.chunk.text for hit in engine.search_sync("What colour is the gate?"))

    with Engine(tmp_path / "data") as engine:
        engine.ingest_sync(tmp_path / "gate.md")
        work = search(engine)
        thread = threading.Thread(target=background_loop().run, args=(work,), daemon=True)
        thread.start()
        thread.join(LONG_S)
    assert found


def test_a_path_may_be_text(tmp_path: Path) -> None:
    assert Engine(str(tmp_path)).settings.data.directory == tmp_path


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(InputError, match="The path of the data directory is empty") as raised:
        Engine("")
    assert raised.value.hint


def test_an_engine_that_cannot_be_opened_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, closed = Engine(settings_in(tmp_path / "data")), []

    def fail() -> None:
        raise StoreError("The history cannot be read.", hint="")

    monkeypatch.setattr(engine.history, "delete_expired", fail)
    close = engine.catalog.close
    monkeypatch.setattr(engine.catalog, "close", lambda: (closed.append(True), close()))
    with pytest.raises(StoreError, match="The history"), engine:
        pass
    assert closed
