"""A refusal of the moderator as clients see it: a problem document, or an answer that says so."""

from __future__ import annotations

from pathlib import Path

import httpx

from ragstone.engine import Engine
from ragstone.protocols import Moderated
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from .test_query import problem

DOORS = {
    "/v1/query": lambda asked: {"query": asked},
    "/api/chat": lambda asked: {"messages": [{"role": "user", "content": asked}]},
    "/api/chat/stream": lambda asked: {"messages": [{"role": "user", "content": asked}]},
    "/api/chat/compare": lambda asked: {"messages": [{"role": "user", "content": asked}]},
    "/chat/default/stream": lambda asked: {"message": asked},
    "/v1/chat/completions": lambda asked: {
        "model": "ragstone/default", "messages": [{"role": "user", "content": asked}],
    },
    "/search": lambda asked: {"query": asked, "top_k": 3},
}  # fmt: skip


class NoSecrets:
    name = "no_secrets"

    async def objection(self, kind: Moderated, text: str) -> str | None:
        return "It is about secrets." if "secret" in text or "green" in text else None


async def test_every_door_refuses_what_the_moderator_refuses(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder(), moderator=NoSecrets())
    await engine.ingest([tmp_path / "gate.txt"])
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for door, body in DOORS.items():
            refused = problem(await client.post(door, json=body("Where is the secret?")), 422)
            assert refused["detail"] == "The question is refused: It is about secrets.", door
        answered = await client.post("/v1/query", json={"query": "What colour is the gate?"})
        reply = answered.json()
        assert reply["status"] == "refused"
        assert "green" not in str(reply["answer"]) + str(reply["claims"]) + str(reply["citations"])
    engine.close()
