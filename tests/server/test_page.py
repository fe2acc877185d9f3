"""The page's files: their policy, their types, and nothing beside them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from ragstone.server.routes import page

FOLDER = Path(page.__file__).parents[1] / "ui"
OWN = [
    path for path in FOLDER.rglob("*") if path.suffix in {".js", ".html", ".css"}
    and "vendor" not in path.parts
]  # fmt: skip


def test_the_page_comes_with_a_strict_policy(client: httpx.Client) -> None:
    reply = client.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_every_file_is_served_as_what_it_is(client: httpx.Client) -> None:
    for path in OWN:
        reply = client.get(f"/ui/{path.relative_to(FOLDER)}")
        assert reply.status_code == 200, path
        kind = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}[path.suffix]
        assert reply.headers["content-type"].startswith(kind), path


def test_an_unchanged_file_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/ui/style.css")
    again = client.get("/ui/style.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_file_is_compressed_for_a_browser_that_reads_that(client: httpx.Client) -> None:
    plain = client.get("/ui/style.css", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    small = client.get("/ui/style.css", headers={"Accept-Encoding": "gzip"})
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["vary"] == "Accept-Encoding"
    assert small.content == plain.content
    assert int(small.headers["content-length"]) < len(plain.content) / 2


@pytest.mark.parametrize(
    "path",
    ["/ui/nothing.js", "/ui/../app.py", "/ui/%2e%2e/app.py", "/ui/vendor/README.md", "/ui/",
     "/ui/%00", "/ui/style.css%00", "/ui/" + "a" * 300 + ".js", "/ui//etc/passwd"],
)  # fmt: skip
def test_nothing_else_is_served(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_no_file_makes_markup_from_strings_or_leaves_the_server() -> None:
    for path in OWN:
        text = path.read_text("utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, path
        without_svg = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://", without_svg), path
        if path.suffix == ".html":
            assert not re.search(r"<style|\sstyle=|\son\w+=", text), path


def test_every_vendored_file_is_the_recorded_one() -> None:
    import hashlib

    vendor = FOLDER / "vendor"
    recorded = (vendor / "README.md").read_text("utf-8")
    for file in (vendor / "pdfjs").glob("*.mjs"):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in recorded
    assert (vendor / "pdfjs" / "LICENSE").is_file()
