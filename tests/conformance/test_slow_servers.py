"""Test that a slow server, or a rebuild under load, does not delay anything else."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ragstone.catalog.backup import Finding
from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.integrity import check_content
from ragstone.catalog.originals import Originals
from ragstone.engine import Engine
from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.protocols import Catalog, Index
from ragstone.settings import IndexSettings
from ragstone.testing import HashEmbedder
from ragstone.testing.conformance import EMBEDDER, make_document, make_unit_vectors

from ..conftest import settings_in
from ..patience import LONG_S
from .test_catalogs import empty_database
from .test_indexes import qdrant

QUESTION = "What colour is the gate?"


class SlowProxy:
    """Forward a port to another one. While it is slow, each request waits until the event loop has
    run a few times, which never happens if the loop itself waits for the reply."""

    def __init__(self, target: tuple[str, int] | str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_slow = False
        self.beats = self.passed = self.stuck = 0
        self._pool = ThreadPoolExecutor(40)
        self._open: list[socket.socket] = []
        self._pool.submit(self._accept)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = self._connect()
            self._open += [near, far]
            self._pool.submit(self._carry, near, far, slowly=True)
            self._pool.submit(self._carry, far, near, slowly=False)

    def _connect(self) -> socket.socket:
        if not isinstance(self._target, str):
            return socket.create_connection(self._target)
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._target)
        return far

    def _carry(self, source: socket.socket, target: socket.socket, *, slowly: bool) -> None:
        try:
            while content := source.recv(65_536):
                if slowly and self.is_slow:
                    self._wait_for_beats()
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed by either side, or by the end of the test

    def _wait_for_beats(self) -> None:
        wanted, end = self.beats + 3, time.monotonic() + LONG_S
        while self.is_slow and self.beats < wanted:
            if time.monotonic() > end:
                self.stuck += 1
                return
            time.sleep(0.005)
        self.passed += 1

    async def beat(self) -> None:
        while self.is_slow:
            self.beats += 1
            await asyncio.sleep(0.005)

    def close(self) -> None:
        for end in (self._listener, *self._open):
            with suppress(OSError):  # the other side was faster
                end.shutdown(socket.SHUT_RDWR)  # closing alone wakes nobody who waits
            end.close()
        self._pool.shutdown()


@pytest.fixture
def proxy(qdrant_url: str) -> Iterator[SlowProxy]:
    host, _, port = qdrant_url.removeprefix("http://").partition(":")
    proxy = SlowProxy((host, int(port)))
    yield proxy
    proxy.close()


@pytest.mark.parametrize("mmr_lambda", [1.0, 0.5])
async def test_the_event_loop_goes_on_while_a_slow_qdrant_is_asked(
    tmp_path: Path, proxy: SlowProxy, mmr_lambda: float
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    (tmp_path / "wall.txt").write_text("The wall is white. The gate stands in it.")
    index = IndexSettings(
        qdrant_url=f"http://{proxy.address}",
        qdrant_prefix=f"t{tmp_path.name[:30]}_",
        qdrant_timeout_s=60,
    )
    settings = settings_in(tmp_path / "data", **{"check.max_iterations": 0})
    settings = settings.model_copy(update={"index": index.model_copy(update={"kind": "qdrant"})})
    async with Engine(settings, embedder=HashEmbedder()) as engine:
        await engine.ingest([tmp_path / "gate.txt", tmp_path / "wall.txt"])
        await ask_slowly(engine, proxy, mmr_lambda=mmr_lambda)


async def ask_slowly(engine: Engine, proxy: SlowProxy, **options: Any) -> None:
    await engine.ask(QUESTION)  # everything is loaded
    proxy.is_slow = True
    beating = asyncio.create_task(proxy.beat())
    answer = await engine.ask(QUESTION, **options)
    proxy.is_slow = False
    await beating
    assert "green" in answer.text
    assert answer.degraded == ()
    assert proxy.passed >= 3
    assert proxy.stuck == 0


async def test_the_event_loop_goes_on_while_a_slow_postgres_is_asked(
    tmp_path: Path, postgres_url: str
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    proxy = SlowProxy(empty_database(postgres_url).partition("unix_sock=")[2])
    settings = settings_in(
        tmp_path / "data",
        **{"data.database_url": f"postgresql://postgres@{proxy.address}/postgres",
           "data.answer_cache": 100, "check.max_iterations": 0},
    )  # fmt: skip
    with closing(proxy):
        async with Engine(settings, embedder=HashEmbedder()) as engine:
            await engine.ingest([tmp_path / "gate.txt"])
            limits = {"page": {"exists": False}}
            await ask_slowly(engine, proxy, filters=limits, session_id="s")


def test_a_database_that_goes_away_during_the_check_is_no_damage(
    tmp_path: Path, postgres_url: str
) -> None:
    proxy = SlowProxy(empty_database(postgres_url).partition("unix_sock=")[2])
    database = Database.at_url(f"postgresql://postgres@{proxy.address}/postgres")
    catalog = SqlCatalog(database)
    catalog.add([make_document(name, ["wind"]) for name in "abc"], embedder=EMBEDDER)
    # The connection ends after the first of three documents.
    check = check_content(database, Originals(tmp_path), keeps_originals=False, pause=proxy.close)
    found: list[Finding] = []
    with closing(catalog), pytest.raises(StoreUnavailableError):
        found.extend(check)
    assert [finding for finding in found if finding.state != "ok"] == []


def test_a_database_that_refuses_a_user_says_so(postgres_url: str) -> None:
    with pytest.raises(StoreError, match="refuses access") as raised:
        Database.at_url(empty_database(postgres_url).replace("postgres@", "nobody@"))
    assert "RAGSTONE_DATABASE_URL" in raised.value.hint


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    catalog = SqlCatalog.in_directory(tmp_path)
    yield catalog
    catalog.close()


@pytest.fixture
def index(catalog: Catalog, qdrant_url: str) -> Iterator[Index]:
    index = qdrant(catalog, qdrant_url)
    yield index
    index.close()


def test_nothing_is_missing_while_an_index_is_rebuilt(catalog: Catalog, index: Index) -> None:
    vectors = make_unit_vectors(40)
    for at in range(20):
        part = vectors[2 * at : 2 * at + 2]
        new = make_document(f"n{at}", ["The wind is strong.", "The wind turns."], vectors=part)
        catalog.add([new], embedder=EMBEDDER)
    index.refresh("c")
    found: set[int] = set()
    rebuilding = threading.Thread(target=lambda: [index.rebuild("c") for _ in range(3)])
    rebuilding.start()
    while rebuilding.is_alive():
        found.add(len(index.search_dense("c", vectors[0], limit=100)))
        found.add(len(index.search_keyword("c", "wind", limit=100, k1=1.2, b=0.75)))
    rebuilding.join()
    assert found == {40}
    assert index.last_change("c") == catalog.last_change("c")
