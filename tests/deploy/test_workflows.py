"""The workflows name targets, files and versions that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands(workflow: dict[str, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"]
            if "run" in step]  # fmt: skip


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists_and_is_given_no_more_than_it_needs(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line for command in commands(workflow) for line in command.splitlines()]
    assert lines
    for line in lines:
        for target in re.findall(r"^make ([a-z-]+)", line):
            assert target in targets
        for file in re.findall(r"(?:src|\.ci)/[\w/.]+|[A-Z]+\.md", line):
            assert (ROOT / file).is_file(), file
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for file in re.findall(r"[\w-]+\.lock", path.read_text("utf-8")):
        assert (ROOT / file).is_file()


def test_the_tests_run_on_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    start = "Programming Language :: Python :: 3."
    named = [f"3.{one.removeprefix(start)}" for one in project["classifiers"]
             if one.startswith(start)]  # fmt: skip
    for name in ("test", "wheel"):
        workflow = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
        matrix = workflow["jobs"][name]["strategy"]["matrix"]
        assert matrix["python"] == named == ["3.11", "3.12", "3.13"]
        assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_only_a_tag_is_published_and_without_a_stored_token() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as a truth value
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "publish.yml").read_text()
    assert ".ci/run" in commands(workflow)


def test_the_changelog_is_grouped_for_users() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## \[(Unreleased|\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    groups = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert {"Added"} <= groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
