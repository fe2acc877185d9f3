"""What the server says of claims and passages is translated on the page, all of it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragstone

from .page_texts import FOLDER

QUERY = Path(ragstone.__file__).parent / "query"
FILES = [QUERY / "explain.py", *sorted((QUERY / "check").glob("*.py"))]
# Texts that look like reasons and are none: an error with its hint, and a comment of a program.
_OTHER = re.compile(r"not found in the collection|^A chunk's id is|^It is loaded before")
# A value that is empty or a few words.
_NEGATED = "Only one of the two says “not”7."


def read_sentences(code: str) -> dict[str, str]:
    text = (FOLDER / f"sentences/{code}.js").read_text("utf-8")
    found: dict[str, str] = json.loads(
        text.partition("export default ")[2].rstrip("; \n")[:-3] + "}"
    )
    return found


def fill(node: ast.expr) -> str:
    """Return a string of the source with values in it; empty for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else "7" for p in node.values]
        return "".join(map(str, parts))
    return ""


def list_reasons(path: Path) -> Iterator[str]:
    """Yield the sentences of a module: strings with a capital and a full stop, outside of docs."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    inside = {id(p) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for p in n.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in docs | inside:
            text = fill(node)
            if re.match(r"[A-Z].* .*\.$", text) and not _OTHER.search(text):
                yield text.replace("“not”7", "“not” about “7”") if text == _NEGATED else text


@pytest.mark.parametrize("code", ["de", "zh"])
def test_every_reason_is_in_the_catalogue(code: str) -> None:
    reasons = [text for path in FILES for text in list_reasons(path)]
    assert len(reasons) > 25
    patterns = [
        re.compile(re.escape(text).replace(r"\{\}", "(.+?)")) for text in read_sentences(code)
    ]
    assert [text for text in reasons if not any(p.fullmatch(text) for p in patterns)] == []


def test_the_catalogues_have_the_same_sentences_with_the_same_values() -> None:
    german, chinese = read_sentences("de"), read_sentences("zh")
    assert list(german) == list(chinese), "the first text that fits is taken"
    for catalogue in (german, chinese):
        for text, translated in catalogue.items():
            assert translated.count("{}") == text.count("{}"), text
