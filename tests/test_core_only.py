"""`pip install ragstone` alone is enough: every package outside the core is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .cli.run import unmeasured

GUARD = Path(__file__).parent / "core_only"


def find_core() -> set[str]:
    """Name the distributions that `pip install ragstone` brings, with those that they need."""
    core: set[str] = set()
    todo = [("ragstone", "")]
    seen = set(todo)
    while todo:
        name, extra = todo.pop()
        core.add(name)
        try:
            needed = requires(name) or ()
        except PackageNotFoundError:  # for another system or version of Python
            continue
        for requirement in map(Requirement, needed):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                other = canonicalize_name(requirement.name)
                new = {(other, one) for one in ("", *requirement.extras)} - seen
                seen |= new
                todo += new
    return core


def find_refused(core: set[str]) -> dict[str, str]:
    """Map each module that the core does not bring to its distribution."""
    return {
        module: owners[0]
        for module, owners in packages_distributions().items()
        if not core & {canonicalize_name(owner) for owner in owners}
    }


def run_guarded(
    refused: dict[str, str], folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    listed = folder / "refused.json"
    listed.write_text(json.dumps(refused))
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env=unmeasured(PYTHONPATH=str(GUARD), CORE_ONLY=str(listed)),
    )  # fmt: skip


def test_the_core_loads_its_parts_ingests_answers_and_serves(tmp_path: Path) -> None:
    refused = find_refused(find_core())
    assert {"pytest", "mypy"} <= refused.keys()
    assert not {"ragstone", "numpy"} & refused.keys()
    done = run_guarded(refused, tmp_path, str(GUARD / "use_everything.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    counts = [int(number) for number in re.findall(r"^(\d+) ", done.stdout, re.MULTILINE)]
    assert len(counts) == 2
    assert counts[0] > 30
    assert counts[1] > 100
    assert re.search(r"^asked: .*green", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^served: .*green", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("package", ["httpx", "onnxruntime"])
def test_without_a_package_that_it_needs_the_core_names_the_import_chain(
    tmp_path: Path, package: str
) -> None:
    """The check itself can fail: here a package of the core is counted as one outside."""
    refused = find_refused(find_core() - {package})
    done = run_guarded(refused, tmp_path, str(GUARD / "use_everything.py"), str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("The core does not stand alone: ragstone."), done.stderr
    assert re.search(rf"Import chain: .*ragstone\.[\w.]+ → {package}", done.stderr)
