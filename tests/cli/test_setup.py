"""`ragstone setup`, and what a person sees when a model cannot answer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ragstone.engine import Engine
from ragstone.providers.choices import find_providers
from ragstone.server.app import create_app
from ragstone.settings import load_settings

from ..providers.stand_in import StandIn, application
from ..server.conftest import serve_application
from .run import call

ANSWER = ["The gate was painted green in 2020 ", "[Source 1]."]
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def model() -> Iterator[StandIn]:
    stand_in = StandIn(words=list(ANSWER))
    for url in serve_application(application(stand_in)):
        stand_in.url = url
        yield stand_in


def test_setup_tests_the_model_and_keeps_other_settings(model: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "ragstone.toml"
    file.write_text('# mine\n[refine]\ntop_k = 3\n\n[provider]\nname = "extractive"\n')
    done = call("setup", "--provider", "openai", "--model", "m", "--base-url", f"{model.url}/v1",
                cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "painted green in 2020 [Source 1]" in done.stdout
    assert "with a citation" in done.stdout
    assert file.read_text().startswith("# mine\n")
    assert tomllib.loads(file.read_text()) == {
        "refine": {"top_k": 3},
        "provider": {"name": "openai"},
        "openai": {"model": "m", "base_url": f"{model.url}/v1"},
    }


def test_setup_takes_the_model_that_a_server_of_your_own_has(tmp_path: Path) -> None:
    stand_in = StandIn(words=list(ANSWER))
    listed = application(stand_in)
    listed.routes.insert(0, Route("/v1/models", list_models))
    for url in serve_application(listed):
        done = call("setup", "--base-url", f"{url}/v1", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        settings = tomllib.loads((tmp_path / "ragstone.toml").read_text())
        assert settings["openai"]["model"] == "their-model"
        assert {one["body"]["model"] for one in stand_in.calls} == {"their-model"}


async def list_models(request: Request) -> JSONResponse:
    return JSONResponse({"data": [{"id": "an-embedder"}, {"id": "their-model"}]})


def test_setup_writes_nothing_when_the_model_cannot_answer(tmp_path: Path) -> None:
    done = call("setup", "--provider", "ollama", "--base-url", CLOSED, cwd=tmp_path,
                LLM_MAX_RETRIES="0")  # fmt: skip
    assert done.returncode == 1
    assert "Ollama cannot be reached" in done.stderr
    assert "ollama serve" in done.stderr
    assert not (tmp_path / "ragstone.toml").exists()


def test_servers_and_keys_are_found(model: StandIn) -> None:
    settings = load_settings(environ={"ANTHROPIC_API_KEY": "k"}).settings
    servers = [("Gone", "ollama", CLOSED, "/api/tags"), ("Wrong", "openai", model.url, "/models")]
    assert [one.title for one in find_providers(settings, servers)] == ["Anthropic"]


# behaviour of the server, provider, reason, state of /readyz, words of the sentence
FAILURES = [
    ("401", "openai", "wrong_key", "degraded", "refused the API key (status 401)"),
    ("404", "openai", "unknown_model", "degraded", "does not have the model 'm' (status 404)"),
    ("closed", "openai", "unreachable", "degraded", "cannot be reached (ConnectError)"),
    ("slow", "openai", "timeout", "degraded", "sent nothing for 1 seconds"),
    ("cut", "openai", "cut", "degraded", "closed the connection in the middle"),
    ("blocked", "google", "blocked", "ok", "refused the content of the prompt"),
    ("length", "openai", "", "ok", "ends at the token limit"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("behaviour", "name", "reason", "state", "words"), FAILURES)
def test_a_model_that_cannot_answer_is_seen(
    behaviour: str, name: str, reason: str, state: str, words: str, model: StandIn, tmp_path: Path,
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "gate.txt").write_text("The gate was painted green in 2020.\n")
    url = CLOSED if behaviour == "closed" else model.url
    variables = {
        "LLM_PROVIDER": name, "LLM_BASE_URL": url + ("/v1" if name == "openai" else ""),
        "LLM_MODEL": "m", "LLM_API_KEY": "wrong", "LLM_MAX_RETRIES": "0",
        "LLM_TIMEOUT_SECONDS": "1" if behaviour == "slow" else "20", "MAX_ITERATIONS": "0",
        "RAGSTONE_DATA": str(tmp_path / "data"), "LLM_PROBE": "false",
    }  # fmt: skip
    assert call("ingest", "gate.txt", cwd=tmp_path, **variables).returncode == 0
    model.behaviours = [behaviour]
    done = call("ask", "What colour is the gate?", cwd=tmp_path, **variables)
    said = done.stdout + done.stderr
    assert words in said
    assert done.returncode == 0
    model.behaviours = [behaviour]
    engine = Engine(load_settings(environ=variables).settings)
    caplog.clear()
    engine.ask_sync("What colour is the gate?")
    logged = [getattr(one, "reason", "") for one in caplog.records if one.msg == "degraded"]
    ready = ask_ready(engine)
    assert ready["status"] == state
    assert ready["provider_state"]["reason"] == (reason if state == "degraded" else "")
    assert logged == ([reason] if reason else [])
    with capsys.disabled():
        line = next(one for one in said.splitlines() if words in one)
        shown = {"case": behaviour, "cli": line, "readyz": ready["status"], "log": reason}
        print(json.dumps(shown))


def ask_ready(engine: Engine) -> dict[str, object]:
    """Ask a real server, which did not probe by itself."""
    app = create_app(engine)
    found: dict[str, object] = {}
    for url in serve_application(app):
        found = httpx.get(f"{url}/readyz", timeout=60).json()
    return found
