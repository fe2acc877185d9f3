"""The check of the first minute runs what the README says, and hides what a newcomer lacks."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check_newcomer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("check_newcomer")


def test_the_first_commands_of_the_readme_are_checked(check_newcomer: ModuleType) -> None:
    block = re.search(
        r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert block
    commands = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    assert commands == list(check_newcomer.COMMANDS)


def test_a_hidden_program_is_gone_and_its_neighbours_stay(
    check_newcomer: ModuleType, tmp_path: Path
) -> None:
    folder, scratch = tmp_path / "bin", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    for name in ("uv", "make"):
        (folder / name).touch(mode=0o755)
    path = check_newcomer.hide_programs(os.pathsep.join([str(folder), "/bin"]), scratch)
    assert shutil.which("uv", path=path) is None
    assert shutil.which("make", path=path)
    assert path.endswith("/bin")


def test_no_lock_is_installed_with_a_resolver() -> None:
    """A resolver fails on a release that comes later; a lock is complete without one."""
    files = [ROOT / "Makefile", ROOT / "deploy" / "Dockerfile", ROOT / "scripts" / "check_wheel.py"]
    lines = [line for file in files for line in file.read_text().splitlines()]
    installs = [line for line in lines if "--require-hashes" in line]
    assert len(installs) >= 5
    assert [line for line in installs if "--no-deps" not in line] == []
