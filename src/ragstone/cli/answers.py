"""Print answers: their text, their sources, and one line of figures.

In a terminal Markdown is rendered; in a pipe the text is printed as it is. In both, the first
source that a reader meets is number 1; in `--json` a source has its number in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import dropwhile
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, ListItem, Markdown
from rich.markup import escape
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ragstone.cli.options import get_language, print_table, say, stdout
from ragstone.messages import translate
from ragstone.types import Answer, Citation

_MARKER = re.compile(r"\[Source (\d+)\]")
# Stands for the space of a marker while lines are folded: Rich folds at every other space.
_UNBROKEN = "\ue000"
_SHOWN_MARKER = re.compile(rf"(\[Source{_UNBROKEN}\d+\])")
_TABLE_ROW = re.compile(r"\s*\|(.+)\|\s*((?:\[Source \d+\]\s*)*)")
_TABLE_RULE = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*")

# Not the powers in x**2 + y**2: only Markdown's own bold is a mark and not a part of the words.
_BOLD = re.compile(r"(?<!\w)\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\w)")


class SourceNumbers(dict[int, int]):
    """The numbers that a reader sees: sources are counted in the order in which they appear."""

    def __missing__(self, number: int) -> int:
        self[number] = len(self) + 1
        return self[number]

    def renumber(self, text: str) -> str:
        return _MARKER.sub(lambda found: f"[Source {self[int(found[1])]}]", text)


class _LeftHeading(Heading):
    """A heading at the left margin, where Rich centres it in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _DottedItem(ListItem):
    """An item of a numbered list whose number has a dot."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        mark = f" {number}. "
        lines = console.render_lines(self.elements, options.update(width=options.max_width - 5))
        for at, line in enumerate(lines):
            yield Segment(" " * len(mark) if at else mark)
            yield from line
            yield Segment.line()


class _Answer(Markdown):
    """Markdown in which a marker is never folded, and a line of the text stays a line."""

    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "list_item_open": _DottedItem,
    }

    def __init__(self, text: str, style: str) -> None:
        text = "  \n".join(_flatten_lone_rows(text))
        text = _MARKER.sub(rf"[Source{_UNBROKEN}\1]", text)
        super().__init__(text, style=style, hyperlinks=False, code_theme="ansi_dark")
        # Tags are shown: a document may say <name>. Indented lines are text and not code.
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self.parsed = parser.disable("code").parse(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cyan = Style.parse("cyan")
        # Rich begins a list with an empty line.
        for segment in dropwhile(lambda one: not one.text.strip(), self._render(console, options)):
            for at, part in enumerate(_SHOWN_MARKER.split(segment.text)):
                style = (segment.style or Style()) + cyan if at % 2 else segment.style
                yield Segment(part.replace(_UNBROKEN, " "), style, segment.control)

    def _render(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Segment):
                yield part
            else:
                yield from console.render(part, options)


def _flatten_lone_rows(text: str) -> list[str]:
    """Return the lines; rows of a table without a head lose their bars, which nothing renders."""
    lines = text.split("\n")
    is_row = [_TABLE_ROW.fullmatch(line) is not None for line in lines]
    shown: list[str] = []
    in_table = False
    for at, line in enumerate(lines):
        has_rule = at + 1 < len(lines) and _TABLE_RULE.fullmatch(lines[at + 1]) is not None
        in_table = is_row[at] and (in_table or has_rule)
        shown.append(_move_markers_inside(line) if in_table else _flatten_row(line))
    return shown


def _move_markers_inside(row: str) -> str:
    """Move the markers behind a row into its last cell: Markdown drops what stands behind it."""
    found = _TABLE_ROW.fullmatch(row)
    return f"|{found[1]} {found[2]}|" if found and found[2] else row


def _flatten_row(line: str) -> str:
    found = _TABLE_ROW.fullmatch(line)
    if found is None:
        return line
    cells = [cell.strip() for cell in found[1].split("|")]
    return f"{' · '.join(filter(None, cells))} {found[2]}".rstrip()


def flatten_quotation(text: str) -> str:
    """Return a quotation as one line, without the bars of tables and the stars of bold words."""
    lines = [_flatten_row(line) for line in text.split("\n") if not _TABLE_RULE.fullmatch(line)]
    return _BOLD.sub(r"\1", " ".join(" ".join(lines).split()))


def print_text(text: str, *, style: str = "") -> None:
    """Print the text of an answer whose markers are numbered for the reader."""
    if stdout().is_terminal:
        stdout().print(_Answer(text, style))
    else:
        stdout().print(text, markup=False)


def print_answer(answer: Answer) -> None:
    """Print an answer, its sources with page and quotation, and one line of figures."""
    numbers = SourceNumbers()
    if answer.short_answer:
        short = flatten_quotation(answer.short_answer)
        stdout().print(Text(short, style="bold green"), end="\n\n")
    is_plain = answer.status in ("answered", "conversational", "ungrounded")
    print_text(numbers.renumber(answer.text), style="" if is_plain else "yellow")
    print_sources(answer, numbers)


def print_citations(citations: Iterable[Citation], numbers: SourceNumbers) -> None:
    """Print each citation once: its source, place and quotation."""
    console, is_terminal = stdout(), stdout().is_terminal
    unique: dict[tuple[int, int, int], Citation] = {}
    for citation in citations:
        unique.setdefault((numbers[citation.number], citation.start, citation.end), citation)
    if unique:
        console.print()
    # The sort is stable: the citations of a source stay in the order of the text.
    for (number, start, end), citation in sorted(unique.items(), key=lambda item: item[0][0]):
        page = escape(say(", page {}", citation.page)) if citation.page else ""
        console.print(
            f"[cyan]\\[Source {number}][/] [bold]{escape(citation.document_name)}[/]{page}"
            f" [dim]({start}–{end})[/]"
        )
        snippet = citation.snippet
        quoted = flatten_quotation(snippet) if is_terminal else " ".join(snippet.split())
        if quoted:
            text = Text(f"“{quoted}”", style="dim")
            console.print(Padding(text, (0, 0, 0, 4), expand=False))


# Verdicts that a reader must not miss, with their words.
_DOUBTED = {
    "unsupported": "not in the sources",
    "contradicted": "the sources say otherwise",
    "suspicious": "from a text that gives orders to models",
}


def print_sources(answer: Answer, numbers: SourceNumbers) -> None:
    """Print citations, notes and figures of an answer whose text is on the screen already."""
    console = stdout()
    if answer.searched_as:
        console.print(f"[dim]{escape(say('Searched as: {}', answer.searched_as))}[/]")
    print_citations(answer.citations, numbers)
    for claim in answer.claims:
        if claim.verdict in _DOUBTED:
            quoted = flatten_quotation(claim.text)
            console.print(Text(f"{say(_DOUBTED[claim.verdict])}: “{quoted}”", style="yellow"))
    for note in answer.notes:
        console.print(f"[dim]{escape(say('note: {}', translate(note, get_language())))}[/]")
    console.print(f"[dim]{_summarise_answer(answer)}[/]")


def _summarise_answer(answer: Answer) -> str:
    count = len(answer.sources)
    figures = say("{} source read" if count == 1 else "{} sources read", count)
    total = f"{answer.trace['total_ms']:.0f} ms"
    if answer.status == "conversational":
        return f"{say('small talk')} · {total}"
    if answer.status == "near":
        return f"{say('no sure answer')} · {figures} · {total}"
    if answer.status == "abstained":
        return f"{say('no answer found')} · {figures} · {total}"
    if answer.status == "refused":
        return f"{say('withheld by the moderator')} · {figures} · {total}"
    if answer.status == "ungrounded":
        return f"{say('written without documents')} · {_name_writer(answer)} · {total}"
    grounded = say("grounded") if answer.is_grounded else say("not grounded")
    confidence = say("confidence {}", f"{answer.confidence:.2f}")
    return (
        f"{grounded} {answer.groundedness_score:.2f} · {confidence} · "
        f"{figures} · {_name_writer(answer)} · {total}"
    )


def _name_writer(answer: Answer) -> str:
    """Name the provider, and the model where there is a choice of them."""
    has_model = answer.model and answer.provider != "extractive"
    return escape(f"{answer.provider} {answer.model}") if has_model else answer.provider


def print_trace(answer: Answer) -> None:
    rows = [
        (
            span["stage"],
            f"{span['duration_ms']:.1f} ms",
            f"{span['cpu_ms']:.1f} ms",
            ", ".join(f"{name} {_shorten(value)}" for name, value in span["counts"].items()),
        )
        for span in answer.trace["spans"]
    ]
    print_table(["stage", "time", "CPU", "figures"], rows)


def _shorten(figure: Any) -> str:
    """Show the first three entries of a long list; the journal has all of them."""
    if isinstance(figure, list) and len(figure) > 4:
        return f"[{', '.join(map(str, figure[:3]))}, … {len(figure)} in all]"
    return str(figure)
