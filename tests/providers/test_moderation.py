"""OpenAI's moderation endpoint, against a server that refuses what the documentation does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.errors import ProviderError, RefusedError
from ragstone.providers.http import Endpoint
from ragstone.providers.moderation import _SERVICE, OpenAIModerator
from ragstone.providers.openai import build_headers
from ragstone.providers.retry import RetryPolicy
from ragstone.settings.services import ModerateSettings
from ragstone.testing import HashEmbedder
from ragstone.testing.conformance import ModeratorConformance

from ..conftest import settings_in

KEY = "sk-right"
CATEGORIES = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit",
    "illicit/violent", "self-harm", "self-harm/instructions", "self-harm/intent", "sexual",
    "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


class Service:
    """What the stand-in says: words that it flags, and statuses that it sends first."""

    def __init__(self) -> None:
        self.flags = {"bomb": ["illicit", "illicit/violent", "violence"], "wound": ["violence"]}
        self.statuses: list[int] = []
        self.bodies: list[dict[str, Any]] = []

    def judge(self, body: dict[str, Any], key: str | None) -> tuple[int, dict[str, Any]]:
        self.bodies.append(body)
        if key != f"Bearer {KEY}":
            message = f"Incorrect API key provided: {key}."
            return 401, {"error": {"message": message, "code": "invalid_api_key"}}
        if self.statuses:
            return self.statuses.pop(0), {"error": {"message": "told to fail"}}
        if set(body) - {"model", "input"} or not isinstance(body["input"], str):
            return 400, {"error": {"message": "Unknown parameter.", "param": "input"}}
        if not body["input"]:
            return 400, {"error": {"message": "'input' is empty.", "param": "input"}}
        found = [name for word, names in self.flags.items() if word in body["input"]
                 for name in names]  # fmt: skip
        result = {
            "flagged": bool(found),
            "categories": {name: name in found for name in CATEGORIES},
            "category_scores": {name: float(name in found) for name in CATEGORIES},
            "category_applied_input_types": {name: ["text"] for name in CATEGORIES},
        }
        return 200, {"id": "modr-1", "model": body["model"], "results": [result]}


@pytest.fixture
def service() -> Iterator[tuple[Service, str]]:
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, reply = state.judge(body, self.headers.get("authorization"))
            if self.path != "/v1/moderations":
                status, reply = 404, {"error": {"message": f"Invalid URL ({self.path})"}}
            content = json.dumps(reply, indent=2).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def make_moderator(url: str, key: str = KEY) -> OpenAIModerator:
    return OpenAIModerator(
        Endpoint(_SERVICE, url, build_headers(key)),
        "omni-moderation-latest",
        ModerateSettings().categories,
        RetryPolicy(max_retries=2, timeout_s=60, first_pause_s=0.01),
    )


class TestOpenAI(ModeratorConformance):
    refused = "How do I build a bomb?"

    @pytest.fixture
    def moderator(self, service: tuple[Service, str]) -> OpenAIModerator:
        return make_moderator(service[1])


async def test_only_the_categories_of_the_settings_are_refused(
    service: tuple[Service, str],
) -> None:
    state, url = service
    moderator = make_moderator(url)
    assert await moderator.objection("question", "How do I dress a wound?") is None
    told = await moderator.objection("question", "How do I build a bomb?")
    assert told == "It asks for help to do something illegal."
    assert set(ModerateSettings().categories) <= set(CATEGORIES)
    assert state.bodies[0]["model"] == "omni-moderation-latest"
    await moderator.aclose()


async def test_it_tries_again_and_says_why_it_failed(service: tuple[Service, str]) -> None:
    state, url = service
    moderator = make_moderator(url)
    state.statuses = [500, 429]
    assert await moderator.objection("question", "Hello") is None
    assert len(state.bodies) == 3
    wrong = make_moderator(url, "sk-wrong-key")
    with pytest.raises(ProviderError) as caught:
        await wrong.objection("question", "Hello")
    assert "refused the API key" in str(caught.value)
    assert "RAGSTONE_MODERATE_API_KEY" in caught.value.hint
    assert "sk-wrong-key" not in str(caught.value)
    assert len(state.bodies) == 4
    for one in (moderator, wrong):
        await one.aclose()


async def test_the_settings_choose_it_and_the_key_of_openai_serves(
    tmp_path: Path, service: tuple[Service, str]
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    flags = {"moderate.name": "openai", "openai.base_url": service[1], "openai.api_key": KEY}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "gate.txt"])
    assert (await engine.ask("What colour is the gate?")).status == "answered"
    with pytest.raises(RefusedError, match="illegal"):
        await engine.ask("How do I build a bomb?")
    await engine.close_connections()
    engine.close()
