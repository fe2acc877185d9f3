"""The Makefile notices an environment whose interpreter is gone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("interpreter", ["there", "gone"])
def test_an_environment_without_its_interpreter_is_made_and_filled_again(
    tmp_path: Path, interpreter: str
) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    target = Path(sys.executable) if interpreter == "there" else tmp_path / "old-python"
    (binaries / "python").symlink_to(target)
    (tmp_path / ".venv" / ".installed-run").touch()
    printed = subprocess.run(
        ["make", "--dry-run", "demo", f"PYTHON={sys.executable}", "UV="],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    gone = interpreter == "gone"
    assert ("rm -rf .venv" in printed) == gone
    assert ("-r requirements.lock" in printed) == gone
    assert "ragstone demo" in printed
