"""A key that has expired or was revoked opens no door of the OpenAPI, nor that for assistants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from .test_isolation import PUBLIC
from .test_query import problem


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    yield engine
    engine.close()


def doors(engine: Engine) -> list[tuple[str, str]]:
    paths = create_app(engine).openapi()["paths"]
    found = [
        (method.upper(), re.sub(r"\{.*?\}", "x", path))
        for path, methods in paths.items()
        if path not in PUBLIC
        for method in methods
    ]
    return [*found, ("POST", "/mcp")]


@pytest.mark.parametrize("state", ["expired", "revoked"])
async def test_no_door_opens_for_a_key_that_is_over(engine: Engine, state: str) -> None:
    ring = KeyRing(engine.catalog)
    lasts_s = -1.0 if state == "expired" else None
    secret, key = ring.create("ann", role="admin", collections=["*"], expires_in_s=lasts_s)
    if state == "revoked":
        ring.revoke(key.id)
    tried = doors(engine)
    assert len(tried) > 30
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for method, path in tried:
            for headers in ({"X-API-Key": secret}, {"Authorization": f"Bearer {secret}"}):
                refused = problem(await client.request(method, path, headers=headers), 401)
                assert refused["detail"] == f"This key is {state}.", (method, path)
                assert secret not in str(refused)
