"""The names of `ragstone`: looked up at first use, and known to type checkers and to `dir`."""

from __future__ import annotations

import ast
from pathlib import Path

import ragstone

TREE = ast.parse(Path(ragstone.__file__).read_text("utf-8"))


def test_dir_lists_every_public_name() -> None:
    assert set(ragstone.__all__) <= set(dir(ragstone))


def test_a_type_checker_sees_the_imports_and_no_getattr() -> None:
    """With `__getattr__` in sight it would accept `from ragstone import Engin`."""
    top = {node.name for node in TREE.body if isinstance(node, ast.FunctionDef)}
    assert "__getattr__" not in top
    (typed,) = [
        node for node in TREE.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]  # fmt: skip
    imported = {
        alias.name for node in typed.body if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }  # fmt: skip
    assert imported == set(ragstone.__all__) - {"__version__"}
