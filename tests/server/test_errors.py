"""A family of failures has one status, and an unforeseen failure is no traceback to a stranger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone import errors
from ragstone.engine import Engine
from ragstone.server.errors import choose_status
from ragstone.testing import HashEmbedder
from ragstone.types import Prompt

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve


class FailingProvider:
    """Raises what it is given."""

    name = model = "failing"
    failure: Exception = ValueError("a secret detail")

    async def stream(self, prompt: Prompt) -> Iterator[str]:  # type: ignore[override]
        raise self.failure
        yield ""


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[tuple[httpx.Client, FailingProvider]]:
    provider = FailingProvider()
    (tmp_path / "note.txt").write_text("It is so, and it was always so.")
    settings = settings_in(tmp_path / "data", **{"provider.strict": True, "provider.probe": False})
    engine = Engine(settings, embedder=HashEmbedder(), provider=provider)
    asyncio.run(engine.ingest([tmp_path / "note.txt"]))
    for address in serve(engine):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            yield client, provider


def test_an_unforeseen_failure_is_a_plain_500(
    broken: tuple[httpx.Client, FailingProvider],
) -> None:
    client, _ = broken
    reply = client.post(
        "/v1/query", json={"query": "Is it so?"}, headers={"X-Request-ID": "find-me"}
    )
    assert reply.status_code == 500
    assert reply.json()["request_id"] == reply.headers["x-request-id"] == "find-me"
    assert "secret" not in reply.text


def test_a_provider_that_does_not_answer_is_a_502(
    broken: tuple[httpx.Client, FailingProvider],
) -> None:
    client, provider = broken
    provider.failure = errors.ProviderError("The model is away.", hint="Wait a little.")
    reply = client.post("/v1/query", json={"query": "Is it so?"})
    assert (reply.status_code, reply.json()["hint"]) == (502, "Wait a little.")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InputError("x"), 422), (errors.IngestError("x"), 422),
        (errors.NotFoundError("x"), 404), (errors.SettingsError("x"), 400),
        (errors.StoreBusyError("x"), 503), (errors.StoreError("x"), 500),
        (errors.ProviderError("x"), 502), (errors.RagstoneError("x"), 500),
    ],
)  # fmt: skip
def test_every_family_has_its_status(error: errors.RagstoneError, status: int) -> None:
    assert choose_status(error) == status
