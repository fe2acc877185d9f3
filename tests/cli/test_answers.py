"""What a reader sees of an answer: rendered Markdown, whole markers, numbers in order."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from ragstone.cli import answers
from ragstone.cli.answers import SourceNumbers, flatten_quotation, print_text
from ragstone.cli.chat import split_paragraphs


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 30 columns, without colours."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=30, no_color=True, highlight=False)
    monkeypatch.setattr(answers, "stdout", lambda: console)
    return shown


def read(terminal: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())


def test_no_marker_is_folded_wherever_it_stands(terminal: io.StringIO) -> None:
    for length in range(1, 32):
        print_text("x" * length + " [Source 12] and more. [Source 3]")
    assert read(terminal).count("[Source 12]") == 31
    assert read(terminal).count("[Source 3]") == 31


def test_tables_and_emphasis_are_rendered_and_nothing_is_lost(terminal: io.StringIO) -> None:
    print_text(
        "The **new** <name> is `x`.\nLine two.\n\n| item | price |\n|---|---|\n"
        "| Soup | 5 | [Source 1]\n\n| Bread | 2 | [Source 2]"
    )
    shown = read(terminal)
    assert "**" not in shown
    assert "|" not in shown
    words = ["new <name> is x.", "Line two.", "Soup", "[Source 1]", "Bread · 2 [Source 2]"]
    for part in words:
        assert part in shown


def test_sources_are_numbered_as_they_appear() -> None:
    numbers = SourceNumbers()
    assert numbers.renumber("A [Source 7]. B [Source 2]. C [Source 7].") == (
        "A [Source 1]. B [Source 2]. C [Source 1]."
    )
    assert numbers[5] == 3


def test_a_quotation_is_one_line_in_its_own_words() -> None:
    quoted = "The **price**:\n| **a** | b_c_d |\n|---|---|\n| 2 * 3 | `x` |"
    assert flatten_quotation(quoted) == "The price: a · b_c_d 2 * 3 · `x`"
    for exact in ("x**2 + y**2", "- 5 degrees", "> 3", "Call __init__ of obj.__class__."):
        assert flatten_quotation(exact) == exact


def test_a_block_of_code_is_one_paragraph() -> None:
    assert split_paragraphs("One.\n\nTwo") == ("One.", "Two")
    assert split_paragraphs("One.") == ("", "One.")
    assert split_paragraphs("One.\n\n```\na\n\nb") == ("One.", "```\na\n\nb")
