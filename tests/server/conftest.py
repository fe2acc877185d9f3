"""A real server on a free port, and a client that talks to it over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn

from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in

DOCUMENTS = {
    "gate.txt": "The gate is green. It was painted in 2020.",
    "dome.md": "# Dome\n\nThe dome opens at nine in the evening.",
}


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "docs").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "docs" / name).write_text(text)
    engine = Engine(settings_in(folder / "data"), embedder=HashEmbedder())
    asyncio.run(engine.ingest([folder / "docs"]))
    yield from serve(engine)


def serve(engine: Engine) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(engine), log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=20) as client:
        yield client
