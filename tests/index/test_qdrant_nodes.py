"""A Qdrant that is away or not a Qdrant at all: an outage, and never damage."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragstone.catalog.backup import Finding
from ragstone.cli.maintain import _check_stores
from ragstone.engine import Engine
from ragstone.errors import StoreUnavailableError
from ragstone.index.qdrant_nodes import QdrantNodes
from ragstone.settings import IndexSettings
from ragstone.testing import HashEmbedder

from ..conftest import settings_in


class OtherService(BaseHTTPRequestHandler):
    """What stands at a wrong port: every reply is a page."""

    status = HTTPStatus.NOT_FOUND

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"<h1>A page</h1>")

    do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=[HTTPStatus.NOT_FOUND, HTTPStatus.OK])
def other_url(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = type("Handler", (OtherService,), {"status": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_another_service_at_the_address_is_an_outage(other_url: str) -> None:
    with (
        closing(QdrantNodes(IndexSettings(qdrant_url=other_url))) as nodes,
        pytest.raises(StoreUnavailableError, match="does not answer") as raised,
    ):
        nodes.read("GET", "/collections/c")
    assert other_url in raised.value.reason
    assert other_url not in str(raised.value)


async def test_what_is_read_while_the_index_is_away_is_stored_and_the_run_fails(
    tmp_path: Path, other_url: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"The gate of {name} is green.")
    settings = settings_in(
        tmp_path / "data",
        **{"index.kind": "qdrant", "index.qdrant_url": other_url, "ingest.refresh_s": 0.001},
    )
    async with Engine(settings, embedder=HashEmbedder()) as engine:
        with pytest.raises(StoreUnavailableError, match="stored, but can't be searched yet"):
            await engine.ingest([tmp_path / "a.txt", tmp_path / "b.txt"])
        assert len(engine.documents()) == 2
        with pytest.raises(StoreUnavailableError):
            await engine.ask("What colour is the gate?")
        *_, last = _check_stores(engine, repair=True, deep=False)
    assert isinstance(last, Finding)
    assert (last.subject, last.state) == ("stores", "wrong")
    assert other_url in last.detail
