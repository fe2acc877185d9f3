"""The documentation holds: its code runs, its links lead somewhere, its references are current."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from ragstone.cli.main import app
from ragstone.engine import Engine

from .cli.run import call, clean_process, environment
from .conftest import SAMPLES, settings_in
from .patience import LONG_S
from .server.conftest import serve

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


Block = tuple[str, str]
"""The language of a block, and its code."""


def blocks(language: str) -> list[Any]:
    return [
        pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, (kind, code) in enumerate(CODE.findall(page.read_text("utf-8")))
        if kind == language
    ]


def commands(code: str) -> list[str]:
    """The commands of a block, each with the lines that it goes on over."""
    joined = re.sub(r"\\\n\s*", " ", code)
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.strip()]


def ragstone_lines(code: str) -> list[str]:
    """The commands of a block that end, and need nothing from elsewhere."""
    lines = [
        line.replace("make demo", ".venv/bin/ragstone demo --data .demo") for line in commands(code)
    ]
    return [
        line for line in lines if re.match(r"(\.venv/bin/)?ragstone (?!serve|models pull)", line)
    ]


def pages_that_run(*, with_python: bool) -> list[Any]:
    """The pages with a block of Python or only commands of ours, each with its blocks in order.

    Those of http.md have a test of their own, which also compares what they print.
    """
    found = []
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        shells = {"bash", "console"} if "upkeep" in name else {"bash"}
        runs: list[Block] = [
            (kind, code)
            for kind, code in CODE.findall(page.read_text("utf-8"))
            if kind == "python" or (kind in shells and ragstone_lines(code))
        ]
        has_python = any(kind == "python" for kind, _ in runs)
        if runs and has_python == with_python:
            found.append(pytest.param(runs, id=name))
    return found


def make_docs_folder(folder: Path) -> Path:
    """Make a folder as the pages assume it: the sample documents, and `ragstone` on the PATH."""
    shutil.copytree(SAMPLES, folder, dirs_exist_ok=True)
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    script = binaries / "ragstone"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ragstone "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose contracts have been read, as most pages begin; to be copied."""
    folder = make_docs_folder(tmp_path_factory.mktemp("docs"))
    run_line(folder, "ragstone ingest contracts/")
    return folder


@pytest.fixture
def docs_folder(ingested: Path, tmp_path: Path) -> Path:
    """A folder for one page: its blocks need each other, but nothing of another page."""
    shutil.copytree(ingested, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def served(ingested: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over a folder of its own."""
    data = tmp_path_factory.mktemp("served") / "data"
    shutil.copytree(ingested / "data", data)
    for address in serve(Engine(settings_in(data))):
        yield address.removeprefix("http://")


def started(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / '.venv' / 'bin'}:{environment()['PATH']}"
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=LONG_S, check=False,
        env=environment(PATH=path, RAGSTONE_DATA=str(folder / "data")),
    )  # fmt: skip


def run_line(folder: Path, line: str) -> None:
    """Run a command of a page: in a shell if the line needs one, else here, which saves a second.

    The first ones of the README name the program by its path: they are always a process.
    """
    line = re.sub(r"--count \d+", "--count 4", line)  # as many questions as show that it works
    line, _, stdin = line.partition(" <<< ")
    bare = re.sub(r"'[^']*'", "", line)
    if not line.startswith("ragstone ") or re.search(r"[|<>&;$`*?\"]", bare):
        done = started(folder, "bash", "-ceu", line)
    else:
        done = call(
            *shlex.split(line)[1:], cwd=folder, typed="".join(shlex.split(stdin)),
            RAGSTONE_DATA=str(folder / "data"),
        )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stderr}"


def run_python(folder: Path, code: str) -> None:
    """Run a block in this process, which has everything imported: a process takes two seconds."""
    printed = io.StringIO()
    with (
        clean_process(environment(RAGSTONE_DATA=str(folder / "data")), folder),
        contextlib.redirect_stdout(printed),
    ):
        exec(compile(code, "a block", "exec", dont_inherit=True), {"__name__": "__main__"})
    assert printed.getvalue(), code


@pytest.mark.slow
@pytest.mark.parametrize("runs", pages_that_run(with_python=False))
def test_the_ragstone_lines_of_a_page_run(
    runs: list[Block], docs_folder: Path, request: pytest.FixtureRequest
) -> None:
    run_blocks(runs, docs_folder, request)


@pytest.mark.slow
@pytest.mark.parametrize("runs", pages_that_run(with_python=True))
def test_a_python_block_runs_and_prints(
    runs: list[Block], docs_folder: Path, request: pytest.FixtureRequest
) -> None:
    """With the commands of its page, which may read the documents that it asks about."""
    run_blocks(runs, docs_folder, request)


def run_blocks(runs: list[Block], folder: Path, request: pytest.FixtureRequest) -> None:
    if any("| jq " in code for _, code in runs) and not shutil.which("jq"):
        pytest.skip("the page needs jq")
    for kind, code in runs:
        if kind == "console":  # the page is about a collection that is in use
            run_line(folder, "ragstone ingest contracts/ -C wiki")
            run_line(folder, "ragstone ask 'When does the lease end?' -C wiki")
        if kind != "python":
            for line in commands(code) if kind == "console" else ragstone_lines(code):
                run_line(folder, line)
        elif "localhost:8642" in code:
            served = request.getfixturevalue("served")
            run_python(folder, code.replace("localhost:8642", served))
        else:
            run_python(folder, code)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="the examples need curl")
@pytest.mark.parametrize("code", [one for one in blocks("bash") if "curl " in str(one.values[0])])
def test_the_curl_lines_of_a_bash_block_are_answered(
    code: str, docs_folder: Path, served: str
) -> None:
    for line in commands(code):
        if line.startswith("curl "):
            command = line.replace("localhost:8642", served).replace("curl ", "curl -sSf ", 1)
            done = started(docs_folder, "bash", "-ceu", command)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            assert json.loads(done.stdout)


def test_every_example_in_the_reference_of_the_commands_can_be_read() -> None:
    """They name files that only their readers have; but every command and option must exist."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    shown = [code for kind, code in CODE.findall(page) if kind == "text"]
    examples = [line for code in shown for line in commands(code) if line.startswith("ragstone ")]
    assert len(examples) > 20
    ragstone: Any = typer.main.get_command(app)
    for example in examples:
        words = shlex.split(re.split(r" [<|>&]", example)[0])[1:]
        command = ragstone
        context = command.make_context("ragstone", [], resilient_parsing=True)
        while words and hasattr(command, "resolve_command") and not words[0].startswith("-"):
            name, command, words = command.resolve_command(context, words)
            context = command.make_context(name, [*words], resilient_parsing=True)
        command.make_context("ragstone", words)


def shows_commands(page: str) -> bool:
    """Whether a block that no test runs has a line that looks like a command of ours."""
    if "<!-- Written by `make bench`" in page:
        return False  # only what the benchmarks print; a row of theirs may begin with "ragstone"
    return any(
        kind in ("text", "console", "")
        and re.search(r"^(\$ )?(ragstone|curl) ", code, re.MULTILINE)
        for kind, code in CODE.findall(page)
    )


def test_no_command_of_ours_stands_where_no_test_runs_it() -> None:
    """`text` blocks are for what cannot be run here; each page that has one is known."""
    known = {
        "README.md", "docs/guides/deploy.md", "docs/guides/gate.md", "docs/guides/presets.md",
        "docs/guides/threshold.md", "docs/guides/cluster.md", "docs/guides/upkeep.md",
        "docs/guides/cookbook.md", "docs/guides/use-your-own-model.md", "docs/reference/cli.md",
        "docs/reference/http.md", "docs/tutorial.md", "docs/concepts/remember.md",
    }  # fmt: skip
    shown = [page for page in PAGES if shows_commands(page.read_text("utf-8"))]
    assert {str(page.relative_to(ROOT)) for page in shown} <= known


def test_the_page_that_the_benchmarks_write_passes_the_checks_of_this_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    bench = importlib.import_module("all")
    printed = "system\tms\nragstone  \t1.2\n\n| set | nDCG |\n|---|---|\n| a | .8 |\n"
    page = bench.render_page([bench.Result(bench.STEPS[0], "bench/search.py", printed, 3.0)], 60.0)
    assert "ragstone  " in page
    assert not shows_commands(page)
    assert not LINK.findall(page)
    assert {kind for kind, _ in CODE.findall(page)} <= {"text"}


@pytest.mark.parametrize("code", blocks("json"))
def test_a_json_block_is_json_and_its_commands_can_be_read(code: str) -> None:
    for server in json.loads(code).get("mcpServers", {}).values():
        command: Any = typer.main.get_command(app)
        assert server["command"] == "ragstone"
        context = command.make_context("ragstone", [], resilient_parsing=True)
        _, command, words = command.resolve_command(context, server["args"])
        command.make_context("mcp", words)


@pytest.mark.parametrize("code", blocks("toml"))
def test_a_toml_block_is_a_settings_file_or_a_plug_ins_entry(code: str, tmp_path: Path) -> None:
    tree = tomllib.loads(code)
    if "project" not in tree:
        (tmp_path / "page.toml").write_text(code)
        done = call("settings", "--config", "page.toml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_every_link_leads_to_a_file() -> None:
    for page in PAGES:
        for target in LINK.findall(page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z-]+)`", page.read_text("utf-8")))
        assert named <= targets, page


@pytest.mark.slow
def test_the_generated_references_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.setattr(sys, "argv", ["build_reference.py", "--check"])
    assert importlib.import_module("build_reference").main() == 0


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = (ROOT / "docs" / "reference" / "dependencies.md").read_text("utf-8")
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += [one for one in extra if not one.startswith("ragstone[")]
    for requirement in wanted:
        name = re.split(r"[\[<>=~; ]", requirement)[0]
        assert f"| `{name}` |" in listed, f"docs/reference/dependencies.md lacks {name}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in navigation
