"""Every example of docs/reference/http.md is run against a real server and prints what it says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .cli.run import environment
from .patience import LONG_S

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "scripts" / "http_examples.py"


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="the examples need curl and jq"
)
def test_the_examples_print_what_the_page_says() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False,
        env=environment(), timeout=LONG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
