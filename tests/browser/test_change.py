"""What an admin changes on the page: a setting, and a document that is read from a URL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.server.app import create_app
from ragstone.settings import load_settings

from ..server.conftest import serve_application
from .conftest import Complaints, ask, go
from .test_manners import violations


async def gate(request: Request) -> Response:
    return PlainTextResponse("The gate is green. It was painted in 2020.")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    yield from serve_application(Starlette(routes=[Route("/gate.txt", gate)]))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("change") / "ragstone.toml"
    path.write_text('[server]\nimport_hosts = "127.0.0.1"\nimport_private = true\n')
    return path


@pytest.fixture(scope="module")
def address(embedder: OnnxEmbedder, file: Path, site: str) -> Iterator[str]:
    flags = {"data.directory": file.parent / "data"}
    loaded = load_settings(flags=flags, config_file=file, environ={})
    engine = Engine(loaded.settings, embedder=embedder)
    asyncio.run(engine.create_collection("default"))
    yield from serve_application(create_app(engine, loaded=loaded))


def test_a_document_is_read_from_a_url(page: Page, site: str, complaints: Complaints) -> None:
    complaints.expect("403")  # the browser itself notes the refusal
    go(page, "Documents")
    url = page.get_by_label("Or read a document from a URL")
    url.fill("http://example.org/secret")
    page.get_by_role("button", name="Import").click()
    expect(page.locator(".import")).to_contain_text("may not be imported from 'example.org'")
    url.fill(f"{site}/gate.txt")
    page.get_by_role("button", name="Import").click()
    expect(page.locator(".import")).to_contain_text("Added: 127.0.0.1/gate.txt, 1 passage.")
    expect(page.locator("tbody")).to_contain_text("gate.txt")
    assert violations(page) == []
    go(page, "Ask")
    ask(page, "What colour is the gate?")
    expect(page.locator(".answer")).to_contain_text("green")


def test_a_setting_is_changed_and_stays_changed(
    page: Page, file: Path, complaints: Complaints
) -> None:
    complaints.expect("400")  # the browser itself notes the refusal
    go(page, "Settings")
    form = page.locator(".change-settings")
    form.get_by_label("refine.top_k").fill("0")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_contain_text("not allowed")
    form.get_by_label("refine.top_k").fill("3")
    form.get_by_role("button", name="Save").click()
    row = page.locator('[data-setting="refine.top_k"]')
    expect(row.locator(".value")).to_have_text("3")
    expect(row.locator(".origin")).to_have_text(str(file))
    assert "top_k = 3" in file.read_text()
    expect(page.locator('[data-setting="server.port"]')).to_contain_text("Needs a restart")
    assert violations(page) == []
