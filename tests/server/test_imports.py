"""`POST /v1/imports` reads only what the settings allow, whatever names and redirects say."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from ragstone.engine import Engine
from ragstone.errors import ForbiddenError, InputError
from ragstone.server.fetch import check_url, fetch_document, is_public, name_document
from ragstone.settings.services import ServerSettings
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve, serve_application


async def redirect(request: Request) -> Response:
    return RedirectResponse(request.query_params["to"])


async def gate(request: Request) -> Response:
    return PlainTextResponse("The gate is green.")


async def large(request: Request) -> Response:
    return PlainTextResponse("x" * 200_000)


async def bad(request: Request) -> Response:
    return Response(status_code=302, headers={"location": "http://[bad/"})


async def packed(request: Request) -> Response:
    return Response(gzip.compress(b"x"), headers={"content-encoding": "gzip"})


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """A web site on this machine."""
    routes = [Route("/gate", gate), Route("/to", redirect), Route("/large", large),
              Route("/bad", bad), Route("/packed", packed)]  # fmt: skip
    yield from serve_application(Starlette(routes=routes))


LOCAL = ServerSettings(import_hosts="127.0.0.1", import_private=True, import_max_mb=0.1)


async def test_a_file_is_read_and_named(site: str, tmp_path: Path) -> None:
    name = await fetch_document(f"{site}/to?to=/gate", tmp_path / "file", LOCAL)
    assert name == "127.0.0.1/gate.txt"
    assert (tmp_path / "file").read_text() == "The gate is green."


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/to?to=http://example.org/", "may not be imported from 'example.org'"),
        ("/to?to=file:///etc/passwd", "Invalid URL"),
        ("/to?to=/to?to=/to", "status|redirects"),
        ("/large", "larger than 0.1 MB"),
        ("/missing", "status 404"),
        ("/bad", "Invalid URL"),
        ("/packed", "compressed"),
        ("/\x01", "Invalid URL"),
    ],
)
async def test_a_redirect_is_checked_like_the_first_url(
    site: str, tmp_path: Path, path: str, says: str
) -> None:
    with pytest.raises((InputError, ForbiddenError), match=says):
        await fetch_document(f"{site}{path}", tmp_path / "file", LOCAL)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"],
)
async def test_a_private_address_is_refused_by_whatever_name(url: str) -> None:
    options = ServerSettings(import_hosts="127.0.0.1,localhost,::1,::ffff:127.0.0.1")
    with pytest.raises(ForbiddenError, match="private address"):
        await check_url(url, options)


async def test_the_connection_goes_to_the_address_that_was_checked(
    site: str,
) -> None:
    options = ServerSettings(import_hosts="localhost", import_private=True)
    target = await check_url(f"{site}/gate".replace("127.0.0.1", "localhost"), options)
    assert target.host == "localhost"
    assert "localhost" not in target.pinned_url


@pytest.mark.parametrize("url", ["ftp://a.org/", "a.org", "http://u:p@a.org/", "http://a.org:x/"])
async def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="Invalid URL"):
        await check_url(url, ServerSettings(import_hosts="a.org"))


async def test_a_host_whose_name_is_too_long_is_not_known() -> None:
    host = "a" * 64 + ".org"
    with pytest.raises(InputError, match="is not known"):
        await check_url(f"http://{host}/", ServerSettings(import_hosts=host))


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "fe80::1%eth0", "fd00::1",
                "224.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "::7f00:1"]
)  # fmt: skip
def test_these_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_a_name_has_an_ending() -> None:
    assert is_public("93.184.216.34")
    assert name_document("https://a.org/x/lease.pdf?v=2", "") == "a.org/x/lease.pdf"
    assert name_document("https://a.org/.", "text/html") == "a.org/index.html"
    assert name_document("https://a.org/", "text/html; charset=utf-8") == "a.org/index.html"


def test_it_is_off_by_default(client: httpx.Client) -> None:
    assert client.get("/v1/imports").json() == {"hosts": []}
    reply = client.post("/v1/imports", json={"url": "http://127.0.0.1/"})
    assert reply.status_code == 403
    assert "IMPORT_HOSTS" in reply.json()["hint"]


def test_what_is_imported_is_found(site: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, IMPORT_HOSTS="127.0.0.1", IMPORT_PRIVATE=True)
    for url in serve(Engine(settings, embedder=HashEmbedder())):
        with httpx.Client(base_url=url, timeout=LONG_S) as client:
            reply = client.post("/v1/imports", json={"url": f"{site}/gate", "tags": ["web"]})
            assert reply.status_code == 201
            assert reply.json()["documents"][0]["name"] == "127.0.0.1/gate.txt"
            answer = client.post("/v1/query", json={"query": "What colour is the gate?"}).json()
            assert "green" in answer["answer"]


def test_without_a_worker_the_import_waits(
    site: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = {"IMPORT_HOSTS": "127.0.0.1", "IMPORT_PRIVATE": True, "ingest.uploads": "workers"}
    engine = Engine(settings_in(tmp_path, **flags), embedder=HashEmbedder())
    engine.intake.no_worker_s = 0.2
    for url in serve(engine):
        body = {"url": f"{site}/gate"}
        zh = {"Accept-Language": "zh"}
        reply = httpx.post(f"{url}/v1/imports", json=body, headers=zh, timeout=LONG_S)
        told = reply.json()
        assert (reply.status_code, told["status"]) == (202, "running")
        assert told["note"].startswith("0.2 秒内没有工作进程接收此上传")
        assert told["note"].endswith(f"GET /v1/uploads/{told['upload_id']}")
    assert "never retrieved" not in caplog.text
