"""The workers of a server share their answers, as long as the collection stays as it is."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from ragstone import Engine
from ragstone.derived import FILE_NAME, name_answers
from ragstone.protocols import Embedder, Vectors
from ragstone.query.cache import Key, SharedAnswers
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder
from ragstone.types import DEFAULT_COLLECTION, Answer

from ..patience import LONG_S, wait_until
from .test_run import serving

_QUESTION = "What colour is the zebra gate?"


def _list_stored_answers(data: Path) -> set[bytes]:
    """Return the keys of the answers that every worker can read."""
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        query = "SELECT key FROM derived WHERE owner = ?"
        owner = name_answers(DEFAULT_COLLECTION)
        return {key for (key,) in connection.execute(query, (owner,))}


@pytest.mark.slow
def test_what_one_worker_has_answered_the_other_does_not_search_again(tmp_path: Path) -> None:
    def send(path: str, body: dict[str, str]) -> dict[str, str]:
        # A new connection each: both workers are met.
        headers = {"Connection": "close"}
        url = f"{served.address}{path}"
        reply = httpx.post(url, json=body, headers=headers, timeout=LONG_S)
        assert reply.is_success, reply.text
        found: dict[str, str] = reply.json()
        return found

    with serving("--workers", "2", cwd=tmp_path) as served:
        answers: list[str] = []
        stored: set[bytes] = set()
        for name, text in (
            ("gate.txt", "The zebra gate is painted green."),
            ("fence.txt", "The fence of the zebras is painted white."),
        ):
            send("/v1/documents", {"name": name, "text": text})
            answers.append(send("/v1/query", {"query": _QUESTION})["answer"])
            # It is written in the background.
            wait_until(lambda: not _list_stored_answers(tmp_path / "data") <= stored)
            stored.update(_list_stored_answers(tmp_path / "data"))
            answers += [send("/v1/query", {"query": _QUESTION})["answer"] for _ in range(8)]
        assert served.stop() == 0
    assert len(set(answers[:9])) == 1
    assert all("green" in one for one in answers)
    assert len(served.logged("initial retrieval")) == 2


def _open(tmp_path: Path, secret: bytes, embedder: Embedder | None = None) -> Engine:
    flags = {"data.directory": tmp_path / "data"}
    engine = Engine(load_settings(flags=flags, environ={}).settings, embedder=embedder)
    engine.answers_secret = secret
    return engine


async def test_only_processes_of_the_same_server_share(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("The zebra gate is painted green.")
    async with _open(tmp_path, b"one") as first:
        await first.ingest([tmp_path / "gate.md"])
        answer = await first.ask(_QUESTION)
        first._derived.flush()
        async with _open(tmp_path, b"one") as same, _open(tmp_path, b"two") as other:
            shared = await same.ask(_QUESTION)
            assert shared.cached
            assert (shared.text, shared.citations) == (answer.text, answer.citations)
            assert not (await other.ask(_QUESTION)).cached
            assert not (await same.ask(_QUESTION, top_k=3)).cached


async def test_an_answer_that_somebody_else_wrote_is_not_read(tmp_path: Path) -> None:
    async with _open(tmp_path, b"one") as engine:
        shared = SharedAnswers(engine._derived, b"one")
        name = shared._build_name(("key",), 1)
        engine._derived.put_many([(name, "answers of default", b"\0" * 32 + b"cos\nsystem\n.")])
        assert shared.get(("key",), 1) is None


async def test_a_deleted_document_takes_the_shared_answers_along(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("The zebra gate is painted green.")
    async with _open(tmp_path, b"one") as engine:
        await engine.ingest([tmp_path / "gate.md"])
        await engine.ask(_QUESTION)
        engine._derived.flush()
        (document,) = engine.documents()
        await engine.delete(document.id)
        files = (tmp_path / "data").glob("derived.db*")
        assert all(b"zebra gate" not in one.read_bytes() for one in files)


class _NotingEmbedder(HashEmbedder):
    """Tell when the first question is searched for."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        if _QUESTION in texts:
            self.is_asked.set()
        return super().embed(texts)


async def test_the_file_is_read_beside_the_event_loop_and_callers_still_share_their_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gate.md").write_text("The zebra gate is painted green.")
    threads: list[int] = []
    numbers = itertools.count()
    embedder = _NotingEmbedder()
    get = SharedAnswers.get

    def note(self: SharedAnswers, key: Key, version: int) -> Answer | None:
        threads.append(threading.get_ident())
        if next(numbers):  # the others wait until the first has begun
            assert embedder.is_asked.wait(LONG_S)
        return get(self, key, version)

    monkeypatch.setattr(SharedAnswers, "get", note)
    async with _open(tmp_path, b"one", embedder) as engine:
        await engine.ingest([tmp_path / "gate.md"])
        answers = await asyncio.gather(*(engine.ask(_QUESTION) for _ in range(3)))
        assert len(threads) == 3
        assert threading.get_ident() not in threads
        assert sorted(one.cached for one in answers) == [False, True, True]
        await engine.ask(_QUESTION)
        assert len(threads) == 3
