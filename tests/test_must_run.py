"""Where the tests of servers must run, a skip of one is a failure."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .cli.run import environment

ROOT = Path(__file__).parents[1]

# Plug-ins that take seconds to import.
QUICK = ("-p", "no:langsmith_plugin", "-p", "no:schemathesis", "-p", "no:hypothesispytest")

TESTS = """
import pytest

@pytest.fixture
def redis():
    pytest.skip("no Redis server")

@pytest.mark.servers
@pytest.mark.skipif(True, reason="no Qdrant server")
def test_skipped_by_a_mark(): ...

@pytest.mark.servers
def test_skipped_by_a_fixture(redis): ...

@pytest.mark.browser
def test_that_runs(): ...

@pytest.mark.skip(reason="an extra is not installed")
def test_without_a_server(): ...

@pytest.mark.servers
@pytest.mark.xfail(reason="a known bug")
def test_known_to_fail():
    raise ValueError
"""


def run_tests(folder: Path, *options: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  servers: a\n  browser: b\n")
    (folder / "test_some.py").write_text(TESTS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *QUICK, *options], cwd=folder,
        capture_output=True, text=True, check=False, env=environment(PYTHONPATH=str(ROOT)),
    ).stdout  # fmt: skip


def test_a_skipped_test_of_a_server_fails_only_where_it_must_run(tmp_path: Path) -> None:
    assert "1 passed, 3 skipped, 1 xfailed" in run_tests(tmp_path)
    for workers in ((), ("-n", "1")):
        printed = run_tests(tmp_path, "-p", "tests.must_run", *workers)
        assert "1 passed, 1 skipped, 1 xfailed, 2 errors" in printed
        assert "test_skipped_by_a_fixture must run here" in printed
        assert "no Redis server" in printed
        assert "no Qdrant server" in printed


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_variable_loads_the_plug_in_and_a_release_sets_it() -> None:
    for value, is_loaded in (("1", True), ("", False)):
        printed = subprocess.run(
            ["make", "--dry-run", "tests", f"TESTS_MUST_RUN={value}", f"PYTHON={sys.executable}"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert ("-p tests.must_run" in printed) == is_loaded
    assert "TESTS_MUST_RUN: 1" in (ROOT / ".github" / "workflows" / "publish.yml").read_text()
