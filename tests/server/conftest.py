"""A real server on a free port, and a client that talks to it over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp

from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from ..providers.stand_in import StandIn, application

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
    yield from serve_application(create_app(engine))


def serve_application(
    application: ASGIApp, *, http: type[asyncio.Protocol] | Literal["auto"] = "auto"
) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, log_level="critical", ws="none", http=http, timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=LONG_S) as client:
        yield client


@pytest.fixture(scope="session")
def model_server() -> Iterator[StandIn]:
    """A model behind OpenAI's protocol on a loopback port."""
    stand_in = StandIn()
    for url in serve_application(application(stand_in)):
        stand_in.url = url
        yield stand_in


@pytest.fixture
def model(model_server: StandIn) -> StandIn:
    """The same, behaving well and with nothing to remember."""
    model_server.__init__(url=model_server.url)  # type: ignore[misc]
    return model_server


def serve_with_model(
    folder: Path, model: StandIn, *, collections: Sequence[str] = ("default",), **flags: object
) -> Iterator[str]:
    """Serve one document; the model writes the answers, and nothing else is asked of it."""
    settings = settings_in(
        folder / "data",
        **{"provider.name": "openai", "provider.base_url": f"{model.url}/v1",
           "provider.max_retries": 0, "provider.probe": False, "understand.intent_enabled": False,
           "check.max_iterations": 0} | flags,
    )  # fmt: skip
    (folder / "gate.txt").write_text(DOCUMENTS["gate.txt"])
    engine = Engine(settings, embedder=HashEmbedder())
    for collection in collections:
        asyncio.run(engine.ingest([folder / "gate.txt"], collection=collection))
    yield from serve(engine)


@pytest.fixture(scope="session")
def written_address(
    tmp_path_factory: pytest.TempPathFactory, model_server: StandIn
) -> Iterator[str]:
    """A server whose answers are written by the model."""
    yield from serve_with_model(tmp_path_factory.mktemp("written"), model_server)


@pytest.fixture
def written(written_address: str, model: StandIn) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=written_address, timeout=LONG_S) as client:
        yield client
