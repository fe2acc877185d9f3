"""What is released: the links of its README, the files of the sdist, and that they were checked."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from email import message_from_string
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hatchling.build import prepare_metadata_for_build_wheel
from hatchling.builders.sdist import SdistBuilder
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]

DEMO = """Reading the sample documents
? When does the lease end?
30 June 2039
grounded 1.00 · 953 ms

? How long do the batteries last?
40 minutes

? What does a glass of wine cost?
I don't have enough information.
no answer found · 269 ms

Ask your own:
"""


@pytest.fixture
def check_wheel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("check_wheel")


def test_the_readme_of_the_package_has_no_relative_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    folder = prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = message_from_string((tmp_path / folder / "METADATA").read_text("utf-8"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = MarkdownIt("commonmark").enable("table").render(metadata.get_payload())
    targets = re.findall(r"""(?:href|src)=["']([^"']*)""", page)
    assert len(targets) > 10
    assert [one for one in targets if not one.startswith("https://")] == []
    files = re.findall(r"/ragstone/(?:blob|raw)/main/([^\s#]+)", " ".join(targets))
    assert [file for file in files if not (ROOT / file).is_file()] == []
    images = [one for one in targets if one.endswith(".png")]
    assert images
    assert all("/raw/main/" in image for image in images)  # `blob` is a page, not an image


def test_whatever_builds_the_package_has_the_hook_that_reads_the_readme() -> None:
    (line,) = [one for one in (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
               if one.startswith("COPY pyproject.toml")]  # fmt: skip
    assert {"hatch_build.py", "README.md"} <= set(line.split())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout")
def test_the_sdist_holds_every_file_of_the_repository() -> None:
    held = {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    assert tracked <= held, tracked - held


def test_the_files_that_are_uploaded_are_those_that_were_checked() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text())
    steps: list[dict[str, Any]] = workflow["jobs"]["build"]["steps"]
    check = next(number for number, step in enumerate(steps) if step.get("run") == ".ci/run")
    (upload,) = steps[check + 1 :]
    assert upload["with"]["path"] == "dist/"
    assert "make wheel-check\n" in (ROOT / ".ci" / "run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^wheel-check: dist .*\n.*check_wheel.py dist/\*$", makefile, re.MULTILINE)


def test_the_check_of_the_wheel_wants_one_wheel_and_one_sdist(check_wheel: ModuleType) -> None:
    wheel, sdist = Path("a.whl"), Path("a.tar.gz")
    assert check_wheel.find_kinds([sdist, wheel]) == (wheel.resolve(), sdist.resolve())
    for files in ([wheel], [wheel, wheel], [wheel, sdist, Path("old.whl")]):
        with pytest.raises(SystemExit, match="Expected one wheel and one sdist"):
            check_wheel.find_kinds(files)


def test_the_check_of_the_wheel_wants_three_answers_one_of_them_declined(
    check_wheel: ModuleType,
) -> None:
    assert check_wheel.find_answers(DEMO).count(" … ms") == DEMO.count(" ms")
    with pytest.raises(SystemExit, match="answered 3 questions and declined 0; expected 2 and 1"):
        check_wheel.find_answers(DEMO.replace("no answer found", "grounded 0.40"))
    with pytest.raises(SystemExit, match="answered 1 questions and declined 1; expected 2 and 1"):
        check_wheel.find_answers(DEMO.replace("? How long", "How long"))


def test_without_a_way_to_cut_the_network_the_check_says_so_and_fails_in_ci(
    check_wheel: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", os.devnull)  # no `unshare`
    monkeypatch.delenv("CI", raising=False)
    assert check_wheel.find_network_blocker() == ()
    assert "warning: the network cannot be cut here" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(SystemExit, match="error: The network cannot be cut"):
        check_wheel.find_network_blocker()


def test_the_installs_go_through_the_proxy_of_the_environment(
    check_wheel: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:1")
    monkeypatch.setenv("no_proxy", "localhost")
    monkeypatch.setenv("RAGSTONE_DATA", "elsewhere")
    code = "import os; print(*sorted(os.environ))"
    printed = check_wheel.run(sys.executable, "-c", code, cwd=tmp_path).split()
    assert {"HTTPS_PROXY", "no_proxy"} <= set(printed)
    assert "RAGSTONE_DATA" not in printed
