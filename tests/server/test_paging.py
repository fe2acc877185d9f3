"""Long lists come page by page, and the header says how long they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"Gate number {number} is green.")
    await engine.ingest([tmp_path / f"{number}.txt" for number in range(5)])
    await engine.ingest([tmp_path / "0.txt"], collection="other")
    ring = KeyRing(engine.catalog)
    secret, _ = ring.create(
        "ann", role="reader", collections=["default", "other"], expires_in_s=None
    )
    narrow, _ = ring.create("ann", role="reader", collections=["default"], expires_in_s=None)
    for number in range(5):
        collection = "default" if number % 2 == 0 else "other"
        await engine.ask(
            f"Which gate is number {number}?", collection=collection, owner="ann",
            session_id=f"s{number}",
        )  # fmt: skip
    transport = httpx.ASGITransport(create_app(engine))
    headers = {"X-API-Key": secret, "narrow": narrow}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://test", headers=headers
    ) as client:
        yield client
    engine.close()


@pytest.mark.parametrize(
    ("path", "name", "newest_first"),
    [("/v1/documents", "name", False), ("/v1/queries", "query", True),
     ("/v1/sessions", "session_id", True)],
)  # fmt: skip
async def test_pages_together_are_the_whole_list(
    client: httpx.AsyncClient, path: str, name: str, newest_first: bool
) -> None:
    whole = await client.get(path)
    assert whole.headers["x-total-count"] == "5"
    values = [one[name] for one in whole.json()]
    assert values == sorted(values, reverse=newest_first)
    pages: list[str] = []
    for skip in (0, 2, 4, 6):
        page = await client.get(path, params={"skip": skip, "limit": 2})
        assert page.headers["x-total-count"] == "5"
        pages += [one[name] for one in page.json()]
    assert pages == values


@pytest.mark.parametrize(("path", "total"), [("/v1/queries", 3), ("/v1/sessions", 3)])
async def test_what_a_key_may_not_read_is_neither_on_a_page_nor_counted(
    client: httpx.AsyncClient, path: str, total: int
) -> None:
    client.headers["X-API-Key"] = client.headers["narrow"]
    page = await client.get(path, params={"limit": 2})
    assert len(page.json()) == 2
    assert page.headers["x-total-count"] == str(total)


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/queries", "/v1/sessions"])
async def test_a_page_beyond_all_bounds_is_refused(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path, params={"skip": 10**30})).status_code == 422
