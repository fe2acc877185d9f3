"""The conformance page names tests, settings, commands and scripts that exist, and has no gaps."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import typer

from ragstone.cli.main import app
from ragstone.settings import load_settings

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "conformance.md").read_text("utf-8")
STATUSES = {"works", "different", "open", "not built"}
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.splitlines()
    if re.match(r"\| [A-E]\d+ \|", line)
]
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)
TESTS = sorted({one for one in QUOTED if one.startswith("tests/") and "::" in one})
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?==|$)")
PATH = re.compile(r"[a-z]+\.[a-z_0-9]+")


@cache
def names_in(path: str) -> frozenset[str]:
    """List the tests of a file, and the classes that hold or inherit some."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, kinds) and node.name.lower().startswith("test")
    )


def test_every_named_test_exists() -> None:
    for test in TESTS:
        path, name = test.split("::")
        assert (ROOT / path).is_file(), test
        assert name in names_in(path), test


def test_every_row_has_a_number_a_status_and_its_evidence() -> None:
    assert len(ROWS) > 200
    for row in ROWS:
        assert len(row) == 4, row
        number, requirement, status, evidence = row
        assert status in STATUSES, number
        assert requirement, number
        if status == "works":
            assert "`" in evidence or "](" in evidence, f"{number} names nothing that shows it"
        else:
            assert evidence.endswith("."), f"{number} needs a sentence with the reason"
    for letter in "ABCDE":
        numbers = [int(row[0][1:]) for row in ROWS if row[0].startswith(letter)]
        assert numbers == list(range(1, len(numbers) + 1)) != [], letter


def test_the_counts_are_those_of_the_rows() -> None:
    counted = Counter(row[2] for row in ROWS)
    told = dict(re.findall(r"^\| (works|different|open|not built) \| (\d+) \|", PAGE, re.MULTILINE))
    assert {status: int(count) for status, count in told.items()} == counted
    assert f"There are {len(ROWS)} rows" in PAGE


def test_every_named_setting_exists() -> None:
    listing = load_settings(environ={}).listing
    variables = {name for setting in listing for name in setting.names}
    paths = {setting.path for setting in listing}
    named = {found[0] for one in QUOTED for word in one.split() if (found := VARIABLE.match(word))}
    assert len(named) > 30
    assert named <= variables
    dotted = {one for one in QUOTED if PATH.fullmatch(one)}
    assert dotted
    assert dotted <= paths


def test_every_named_command_and_script_exists() -> None:
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = {word for one in QUOTED for word in re.findall(r"(?:^| )ragstone ([a-z]+)", one)}
    assert named
    assert named <= commands
    scripts = {word for one in QUOTED for word in one.split() if word.startswith("bench/")}
    assert scripts
    for script in scripts - {"bench/cache/store-50k"}:  # what bench/load_store.py writes
        assert (ROOT / script).exists(), script
