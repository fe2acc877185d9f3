"""The report: everything inside one file, nothing of a document taken for markup, and a real
browser opens it on a wide screen and on a phone, without errors and without the network."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragstone.errors import InputError
from ragstone.evaluate.datasets import Dataset, Passage, Question, Target
from ragstone.evaluate.report import (
    find_worst_questions,
    render_html_report,
    render_markdown_report,
    write_report,
)
from ragstone.evaluate.run import Options, Outcome, Run, run_questions
from ragstone.evaluate.summary import Summary, summarise_run
from ragstone.evaluate.workbench import Workbench
from ragstone.testing import HashEmbedder

from ..patience import LONG_S
from .build import inside

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
HOSTILE = "<script>alert('owned')</script> & <img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Run], dict[str, Summary]]:
    """A run with answers, misses and hostile texts."""
    folder = tmp_path_factory.mktemp("report")
    passages = [
        Passage(f"p{at}", f"The lantern number {at} was lit by Keeper {at} in 19{at:02}.")
        for at in range(30)
    ]
    passages.append(Passage("evil", f"{HOSTILE} The lantern of the devil was lit in 1666."))
    questions = [
        Question(
            f"q{at}",
            f"When was lantern number {at} lit?",
            (Target(f"p{at}", document=f"p{at}"),),
            (f"19{at:02}",),
            True,
        )
        for at in range(10)
    ]
    questions += [
        Question("evil", f"When was it lit {HOSTILE}?", (Target("p0", document="p0"),), ("1666",)),
        Question("none", "Who sang at the wedding of the duchess?", answerable=False),
    ]
    dataset = Dataset(f"lanterns {HOSTILE}", tuple(questions), tuple(passages))
    bench = Workbench(dataset, inside(folder), embedder=HashEmbedder())
    bench.prepare()
    run = asyncio.run(run_questions(bench, bench.settings, Options(answers=True), name="balanced"))
    keyword = Options(method="keyword")
    other = asyncio.run(run_questions(bench, bench.settings, keyword, name="BM25 alone"))
    return [run, other], {one.name: summarise_run(one) for one in (run, other)}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := given.get(name))]
        self.ids.add(given.get("id") or "")


def test_the_report_needs_nothing_from_elsewhere(
    reported: tuple[list[Run], dict[str, Summary]],
) -> None:
    text = render_html_report(*reported)
    found = Tags(text)
    assert not {"script", "img", "iframe"} & found.tags
    for link in found.links:
        assert link == "data:," or (link.startswith("#") and link[1:] in found.ids)
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_the_report_shows_the_plots_and_the_worst_questions(
    reported: tuple[list[Run], dict[str, Summary]],
) -> None:
    text = render_html_report(*reported)
    for caption in (
        "Similarity of hits",
        "What a similarity threshold keeps",
        "Risk and coverage",
        "Reliability of the confidence",
        "Time of each stage",
        "Latency of a question",
        "Their traces",
    ):
        assert caption in text
    assert "BM25 alone" in text
    assert 'href="#trace-1"' in text
    markdown = render_markdown_report(*reported)
    assert "| ndcg@10 |" in markdown
    assert "## Worst questions" in markdown


def test_a_wrong_answer_is_among_the_worst_however_well_was_searched(
    reported: tuple[list[Run], dict[str, Summary]], tmp_path: Path
) -> None:
    questions = (
        Question("right", "Who built it?", (Target("a"),), ("Mason",), True),
        Question("wrong", "Who sold it?", (Target("a"),), ("Miller",), True),
        Question("failed", "Who lost it?", (Target("a"),), ("Baker",), True),
        Question("spoke", "Who ate it?", answerable=False),
    )
    said = Outcome("", ("a",), answer="It was Mason.", status="answered")
    outcomes = [replace(said, id=one.id) for one in questions]
    outcomes[2] = Outcome("failed", error="The model is gone.")
    run = Run(
        "set",
        Dataset("set", questions),
        reported[0][0].settings,
        tuple(outcomes),
        tmp_path,
        Options(answers=True),
    )
    assert [question.id for question, _, _ in find_worst_questions(run)] == [
        "failed",
        "spoke",
        "wrong",
    ]
    assert "lowest of ndcg@10, containment, decided_right" in render_html_report(
        [run], {"set": summarise_run(run)}
    )


def test_a_report_is_written_where_it_is_wanted(
    reported: tuple[list[Run], dict[str, Summary]], tmp_path: Path
) -> None:
    beside = write_report(*reported, None)
    assert beside.read_text().startswith("<!doctype html>")
    assert beside.with_name("report.md").is_file()
    assert write_report(*reported, tmp_path / "new" / "r.md").read_text().startswith("# lanterns")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(*reported, beside / "r.html")


@contextmanager
def served(pages: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The pages on loopback, and a list of everything that was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Opens the report in a frame of the given width, and writes down what it looks like.
WATCH = """<!doctype html><title>watch</title>
<iframe id=frame src="/report.html" style="width:{width}px;height:900px;border:0"></iframe><script>
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement;
  document.body.dataset.width = root.scrollWidth;
  document.body.dataset.plots = page.querySelectorAll('svg').length;
  document.body.dataset.unseen = [...page.querySelectorAll('svg')].filter(
    one => one.getBoundingClientRect().width < 200).length;
  document.body.dataset.narrow = [...page.querySelectorAll('td')].filter(
    one => one.textContent.length > 4 && one.getBoundingClientRect().width < 35).length;
  document.body.dataset.small = [...page.querySelectorAll('p, td')].filter(
    one => parseFloat(getComputedStyle(one).fontSize) < 12).length;
}};</script>"""


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no Chromium or Chrome is installed")
@pytest.mark.parametrize("width", [390, 1200], ids=["phone", "desk"])
def test_a_real_browser_opens_the_report(
    reported: tuple[list[Run], dict[str, Summary]], tmp_path: Path, width: int
) -> None:
    pages = {
        "/report.html": render_html_report(*reported),
        "/watch.html": WATCH.format(width=width),
    }
    with served(pages) as (url, asked):
        done = subprocess.run(
            [
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                f"--user-data-dir={tmp_path}",
                "--enable-logging=stderr",
                "--v=0",
                "--virtual-time-budget=5000",
                "--dump-dom",
                f"{url}/watch.html",
            ],
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    seen = dict(re.findall(r'data-(\w+)="(\d+)"', done.stdout))
    assert int(seen["width"]) <= width, "the page scrolls sideways"
    assert int(seen["plots"]) >= 6
    assert seen["unseen"] == seen["small"] == seen["narrow"] == "0"
    assert set(asked) <= {"/watch.html", "/report.html", "/favicon.ico"}
    assert "CONSOLE" not in done.stderr, done.stderr
