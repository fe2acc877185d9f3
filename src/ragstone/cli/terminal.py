"""How things look: colour and tables in a terminal, plain text in a pipe."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ragstone.errors import RagstoneError
from ragstone.types import Answer

PLAIN_WIDTH = 100


@cache
def out() -> Console:
    return _console(stderr=False)


@cache
def err() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    # In a pipe lines are never folded: the next program decides.
    width = None if stream.isatty() else 10_000
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=not stream.isatty())


def fail(error: RagstoneError) -> None:
    err().print(f"[bold red]error:[/] {escape(error.message)}")
    if error.hint:
        err().print(f"[dim]hint:[/] {escape(error.hint)}")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A ruled table in a terminal; tab-separated lines in a pipe."""
    if not out().is_terminal:
        for row in rows:
            sys.stdout.write("\t".join(str(cell) for cell in row) + "\n")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    out().print(table)


def print_answer(answer: Answer) -> None:
    """The answer, its sources with page and quotation, and one line of figures."""
    console = out()
    style = "" if answer.status == "answered" else "yellow"
    console.print(_marked(answer.text, style))
    print_sources(answer)


def print_sources(answer: Answer) -> None:
    """What stands under an answer."""
    console = out()
    if answer.citations:
        console.print()
        for number, citation in _first_of_each(answer):
            page = f", page {citation.page}" if citation.page else ""
            console.print(
                f"[cyan]\\[Source {number}][/] [bold]{escape(citation.document_name)}[/]{page}"
                f" [dim]({citation.start}–{citation.end})[/]"
            )
            console.print(Text(f"    “{' '.join(citation.snippet.split())}”", style="dim"))
    for note in answer.notes:
        console.print(f"[dim]note: {escape(note)}[/]")
    console.print(f"[dim]{_figures(answer)}[/]")


def print_trace(answer: Answer) -> None:
    rows = [
        (
            span["stage"],
            f"{span['duration_ms']:.1f} ms",
            f"{span['cpu_ms']:.1f} ms",
            ", ".join(f"{name} {_brief(value)}" for name, value in span["counts"].items()),
        )
        for span in answer.trace["spans"]
    ]
    print_table(["stage", "time", "CPU", "figures"], rows)


def _brief(figure: Any) -> str:
    """A figure in a line: of a long list the first three; the journal has them all."""
    if isinstance(figure, list) and len(figure) > 4:
        return f"[{', '.join(map(str, figure[:3]))}, … {len(figure)} in all]"
    return str(figure)


def _marked(text: str, style: str) -> Text:
    marked = Text(text, style=style)
    marked.highlight_regex(r"\[Source \d+\]", "cyan")
    return marked


def _first_of_each(answer: Answer) -> list[tuple[int, Any]]:
    first: dict[tuple[int, int, int], Any] = {}
    for citation in answer.citations:
        first.setdefault((citation.number, citation.start, citation.end), citation)
    return [(number, citation) for (number, _, _), citation in first.items()]


def _figures(answer: Answer) -> str:
    total = answer.trace["total_ms"]
    if answer.status == "abstained":
        return f"no answer found · {len(answer.sources)} sources read · {total:.0f} ms"
    if answer.status == "refused":
        return f"withheld by the moderator · {len(answer.sources)} sources read · {total:.0f} ms"
    grounded = "grounded" if answer.is_grounded else "not grounded"
    return (
        f"{grounded} {answer.groundedness_score:.2f} · confidence {answer.confidence:.2f} · "
        f"{len(answer.sources)} sources read · {answer.provider} · {total:.0f} ms"
    )


# Where there is no terminal, a line is written this often.
_LINE_EVERY_S = 10.0


@contextmanager
def telling() -> Iterator[Callable[[str, int, int], None]]:
    """A function that is told what is being done, how much of it is done, and how much there is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    said = time.monotonic()
    with Progress(*columns, console=err(), transient=True, disable=not err().is_terminal) as bar:
        task = bar.add_task("", total=None)
        doing = ""

        def told(what: str, done: int, total: int) -> None:
            nonlocal said, doing
            if what != doing:
                doing = what
                bar.reset(task, description=what, total=total)
            bar.update(task, completed=done, total=total)
            if not err().is_terminal and time.monotonic() - said > _LINE_EVERY_S:
                said = time.monotonic()
                err().print(f"{what}: {done} of {total}")

        yield told
