"""Test that deleted data is in no file: not in free pages, not in SQLite's log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.filters import HistoryFilter
from ragstone.testing import HashEmbedder

from ..conftest import settings_in

SECRET = "xylophone"
QUESTION = f"Is the {SECRET} in the garden?"


@pytest.fixture
async def engine(tmp_path: Path) -> Engine:
    engine = Engine(
        settings_in(tmp_path / "data", **{"journal.retention_days": 1}), embedder=HashEmbedder()
    )
    (tmp_path / "garden.txt").write_text("The garden is green.")
    await engine.ingest([tmp_path / "garden.txt"])
    return engine


def find_files_with(engine: Engine, word: str) -> list[str]:
    """List the files of the data directory that contain a word."""
    files = (path for path in engine.settings.data.directory.rglob("*") if path.is_file())
    return [path.name for path in files if word.encode() in path.read_bytes().lower()]


@pytest.mark.parametrize(
    "delete",
    [
        lambda history, _: history.delete_session("local", "one"),
        lambda history, _: history.delete_owner("local"),
        lambda history, query_id: (
            history.delete_query(query_id), history.sessions.delete_all("local"),
            history.delete_queries(HistoryFilter(owner="local")),
        ),
    ],
    ids=["session", "owner", "query"],
)  # fmt: skip
async def test_a_deleted_question_is_in_no_file(
    engine: Engine, delete: Callable[..., object]
) -> None:
    async with engine:
        answer = await engine.ask(QUESTION, session_id="one")
        await engine.ask("Is the garden green?")
        assert find_files_with(engine, SECRET)
        delete(engine.history, answer.query_id)
        assert not find_files_with(engine, SECRET)


async def test_an_answer_that_workers_share_goes_with_its_question(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path / "data", **{"data.answer_cache": 9}))
    engine.answers_secret = b"one"
    (tmp_path / "garden.txt").write_text("The garden is green.")
    async with engine:
        await engine.ingest([tmp_path / "garden.txt"])
        answer = await engine.ask(QUESTION)
        engine._derived.flush()
        assert [name for name in find_files_with(engine, SECRET) if name.startswith("derived")]
        engine.history.delete_query(answer.query_id)
        assert not find_files_with(engine, SECRET)


@pytest.mark.parametrize(
    "flags",
    [
        {"journal.query_log": "off"},
        {"journal.query_log": "metadata"},
        {"journal.require_consent": True},
    ],
)
async def test_workers_share_no_answer_that_may_not_be_stored(
    tmp_path: Path, flags: dict[str, object]
) -> None:
    engine = Engine(settings_in(tmp_path / "data", **{"data.answer_cache": 9, **flags}))
    engine.answers_secret = b"one"
    (tmp_path / "garden.txt").write_text("The garden is green.")
    async with engine:
        await engine.ingest([tmp_path / "garden.txt"])
        await engine.ask(QUESTION)
        engine._derived.flush()
        assert not find_files_with(engine, SECRET)


async def test_an_expired_question_is_in_no_file(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine:
        await engine.ask(QUESTION, session_id="one")
        later = time.time() + 86_400 * (engine.settings.journal.retention_days + 1)
        monkeypatch.setattr(time, "time", lambda: later)
        engine.history.delete_expired()
        assert not find_files_with(engine, SECRET)


async def test_a_deleted_collection_is_in_no_file(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "porch.txt").write_text(f"The {SECRET} stands on the porch.")
    async with engine:
        await engine.ingest([tmp_path / "porch.txt"], collection="porch")
        await engine.ask(QUESTION, collection="porch")
        assert find_files_with(engine, SECRET)
        await engine.delete_collection("porch")
        assert not find_files_with(engine, SECRET)


async def test_a_deleted_documents_text_is_in_no_file(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "porch.txt").write_text(f"The {SECRET} stands on the porch.")
    async with engine:
        await engine.ingest([tmp_path / "porch.txt"])
        (porch,) = [one for one in engine.documents() if one.name == "porch.txt"]
        await engine.delete(porch.id)
        assert not find_files_with(engine, SECRET)
