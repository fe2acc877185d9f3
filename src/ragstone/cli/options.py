"""The options that every command shares, and the engine they lead to."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ragstone.errors import InputError, RagstoneError, SettingsError
from ragstone.types import Answer

if TYPE_CHECKING:
    from ragstone.engine import Engine
    from ragstone.settings import LoadedSettings


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


# `readable=False`: what cannot be read is told by the engine, in its own words and exit code.
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data", "-d", metavar="DIR", readable=False, help="Where documents and index are kept."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", readable=False, help="A ragstone.toml to read."),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", "-p", help="minimal, classic, balanced (default) or careful."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Any setting; may be repeated."),
]
Collection = Annotated[
    str, typer.Option("--collection", "-C", metavar="NAME", help="The collection to work in.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def load(
    data: Path | None,
    config: Path | None,
    preset: str | None,
    overrides: list[str] | None,
    **more: Any,
) -> LoadedSettings:
    """The settings with the command line's flags on top."""
    from ragstone.settings import load_settings

    flags = flags_of(overrides)
    named = {"data.directory": data, "preset": preset, **more}
    flags.update({path: value for path, value in named.items() if value is not None})
    return load_settings(flags=flags, config_file=config)


def flags_of(overrides: list[str] | None) -> dict[str, Any]:
    """What `--set` was given, by name."""
    flags: dict[str, Any] = {}
    for override in overrides or []:
        name, equals, value = override.partition("=")
        if not equals:
            # What follows the name is not shown: it may be a secret.
            shown = re.match(r"[\w.]*", override.strip())
            raise SettingsError(
                f"'--set {shown[0] if shown else ''}' has no value.",
                hint="Write --set RAG_TOP_K=5, for example.",
            )
        flags[name.strip()] = value.strip()
    return flags


def make_folder(folder: Path, flag: str) -> None:
    """Where a result will be written, before the long work that leads to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"The folder '{folder}' of {flag} cannot be written: {error.strerror}.",
            hint=f"Give {flag} another place.",
        ) from error


def require_collection(engine: Engine, name: str) -> None:
    """Refuse to read from a collection that does not exist: its name is probably mistyped."""
    from ragstone.catalog.collections import refuse_unknown_collection
    from ragstone.query.request import check_collection

    check_collection(name)
    # Another service has collections that the catalog does not know.
    if not engine.settings.retrieve.chunkenizer_url:
        refuse_unknown_collection(engine.catalog, name)


def open_engine(loaded: LoadedSettings) -> Engine:
    from ragstone.engine import Engine

    return Engine(loaded.settings)
