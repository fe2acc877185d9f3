"""Define the options that all commands share, print results, and open the engine."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ragstone.errors import (
    InputError,
    NotFoundError,
    RagstoneError,
    SettingsError,
    StoreUnavailableError,
)
from ragstone.messages import choose_language, translate, translate_format
from ragstone.types import Answer

if TYPE_CHECKING:
    from sqlalchemy import Column

    from ragstone.engine import Engine
    from ragstone.protocols import Catalog
    from ragstone.providers.retry import HealthReport
    from ragstone.settings import LoadedSettings

# `readable=False`: the engine reports a path it cannot read, with its own message and exit code.
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data", "-d", metavar="DIR", readable=False, help="Directory of documents and index."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", readable=False, help="Read this ragstone.toml."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", "-p", help="minimal, classic, balanced (default), careful or multilingual."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set any setting; may be repeated."),
]
Collection = Annotated[
    str, typer.Option("--collection", "-C", metavar="NAME", help="Use this collection.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Rag = Annotated[
    bool | None,
    typer.Option(
        "--rag/--no-rag",
        help="Use the documents, or chat with the model alone.",
        show_default=False,
    ),
]
Method = Annotated[str | None, typer.Option(help="semantic, keyword or hybrid (default).")]

Strict = Annotated[
    bool,
    typer.Option("--strict", help="Fail if the model cannot answer, instead of quoting."),
]

# A shorter id is never completed: an empty variable in a script must not choose a document.
_PREFIX_CHARS = 4
# Without a terminal, progress is printed as a line this often.
PROGRESS_LINE_EVERY_S = 10.0


@cache
def stdout() -> Console:
    return _open_console(stderr=False)


@cache
def stderr() -> Console:
    return _open_console(stderr=True)


def _open_console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    # In a pipe lines are never folded: the next program decides.
    width = None if stream.isatty() else 10_000
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=not stream.isatty())


class _Messages:
    """Hold the language of the messages: of the environment, until settings name one."""

    language = ""


def get_language() -> str:
    """Return the language of the messages."""
    from ragstone.settings import read_language

    return _Messages.language or choose_language(read_language())


def say(template: str, *values: object) -> str:
    """Translate a text with `{}` for its values into the language of the messages."""
    return translate_format(template, *values, language=get_language())


def print_error(error: RagstoneError) -> None:
    language = get_language()
    message, hint = translate(error.message, language), translate(error.hint, language)
    stderr().print(f"[bold red]{say('error:')}[/] {escape(message)}")
    if hint:
        stderr().print(f"[dim]{say('hint:')}[/] {escape(hint)}")
    if isinstance(error, StoreUnavailableError) and error.reason:
        stderr().print(f"[dim]{say('reason:')} {escape(error.reason)}[/]")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


_LONG_ID = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{12,}\b")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table in a terminal, and tab-separated lines in a pipe; both begin with headings."""
    if not stdout().is_terminal:
        for row in (columns, *rows):
            sys.stdout.write("\t".join(str(cell) for cell in row) + "\n")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "id")
    for row in rows:
        # The first characters of an id are enough for every command.
        table.add_row(*(escape(_LONG_ID.sub(r"\1…", str(cell))) for cell in row))
    stdout().print(table)


def format_time(timestamp_s: float) -> str:
    return datetime.fromtimestamp(timestamp_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


@contextmanager
def show_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function (task, done, total) that draws a bar, or prints lines without a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = stderr()
    last_line = time.monotonic()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)
        current = ""

        def update(description: str, done: int, total: int) -> None:
            nonlocal last_line, current
            if description != current:
                current = description
                bar.reset(task, description=description, total=total)
            bar.update(task, completed=done, total=total)
            now = time.monotonic()
            if not console.is_terminal and now - last_line > PROGRESS_LINE_EVERY_S:
                last_line = now
                console.print(f"{description}: {done} of {total}")

        yield update


def load_settings(
    data: Path | None,
    config: Path | None,
    preset: str | None = None,
    overrides: list[str] | None = None,
    **more: Any,
) -> LoadedSettings:
    """Load the settings with the flags of the command line on top."""
    from ragstone import settings

    flags = parse_overrides(overrides)
    named = {"data.directory": data, "preset": preset, **more}
    flags.update({path: value for path, value in named.items() if value is not None})
    loaded = settings.load_settings(flags=flags, config_file=config)
    if loaded.settings.language != "auto":
        _Messages.language = loaded.settings.language
    return loaded


def parse_overrides(overrides: list[str] | None) -> dict[str, Any]:
    """Split each `--set NAME=VALUE` into name and value."""
    flags: dict[str, Any] = {}
    for override in overrides or []:
        name, equals, value = override.partition("=")
        if not equals:
            # Only the name is shown: the rest may be a secret.
            shown = re.match(r"[\w.]*", override.strip())
            raise SettingsError(
                f"'--set {shown[0] if shown else ''}' has no value.",
                hint="Write e.g. --set RAG_TOP_K=5.",
            )
        flags[name.strip()] = value.strip()
    return flags


def create_folder(folder: Path, flag: str) -> None:
    """Create the folder of a result and try to write to it, before the long work begins."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"The folder '{folder}' of {flag} cannot be written: {error.strerror}.",
            hint=f"Choose another folder for {flag}.",
        ) from error


def refuse_new_directory(loaded: LoadedSettings, existing: Path | None) -> None:
    """Refuse a data directory of --data that does not exist: its name is probably mistyped."""
    uses_files = not loaded.settings.data.database_url.get_secret_value()
    if existing is not None and uses_files and not existing.exists():
        raise NotFoundError(
            f"There is no data directory '{existing}'.",
            hint="Check --data, or fill a new directory with: ragstone ingest PATH… --data DIR",
        )


@contextmanager
def open_engine(loaded: LoadedSettings, *, existing: Path | None = None) -> Iterator[Engine]:
    """Open an engine; refuse the data directory `existing` of a command that reads if it is new."""
    from ragstone.engine import Engine

    refuse_new_directory(loaded, existing)
    engine = Engine(loaded.settings)
    try:
        yield engine
    finally:
        engine.close()


def probe_provider(engine: Engine) -> HealthReport:
    """Ask the provider for one word; return how it went."""

    async def probe() -> HealthReport:
        try:
            return await engine.probe_provider()
        finally:
            await engine.close_connections()

    return asyncio.run(probe())


def warn_about_provider(engine: Engine, answer: Answer) -> Answer:
    """Say on standard error why no model wrote an answer, and what to do about it.

    Returns the answer without the notes that say the same.
    """
    health = engine.provider_health
    if health.state != "failing" or not answer.degraded:
        return answer
    stderr().print(
        f"[bold yellow]warning:[/] {escape(health.message)} {escape(health.hint)} "
        "No model was used; the answer is quoted from the sources."
    )
    if health.detail:
        stderr().print(f"[dim]It says: {escape(health.detail)}[/]")
    return replace(
        answer, notes=tuple(one for one in answer.notes if not one.startswith(health.message))
    )


def complete_id(catalog: Catalog, column: Column[str], given: str, *conditions: Any) -> str:
    """Return the one id in the catalog that begins with `given`, of which four characters will do.

    If there is none, `given` is returned as it is: the command says so.
    """
    from sqlalchemy import func, select

    prefix = given.rstrip("…")
    is_short = len(prefix) < _PREFIX_CHARS
    # Not LIKE, which ignores case in SQLite.
    begins = column == given if is_short else func.substr(column, 1, len(prefix)) == prefix
    query = select(column).where(begins, *conditions).distinct().order_by(column).limit(4)
    with catalog.read_transaction() as connection:
        found: list[str] = list(connection.scalars(query))
    if is_short and not found:
        raise NotFoundError(
            f"There is no id '{given}'.",
            hint=f"The first {_PREFIX_CHARS} characters of an id are enough, but not fewer.",
        )
    if given in found or not found:
        return given
    if len(found) > 1:
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise InputError(
            f"Several ids begin with '{given}': {shown}.", hint="Give more characters of the id."
        )
    return found[0]


def confirm_deletion(question: str, refusal: str) -> None:
    """Ask before something is deleted; exit with code 1 if the user does not want it.

    Where nobody can be asked, the refusal is the error.
    """
    if not sys.stdin.isatty():
        raise InputError(refusal, hint="Add --yes to delete without asking.")
    if not typer.confirm(question, err=True):
        stderr().print("Nothing was deleted.")
        raise typer.Exit(1)


def require_collection(engine: Engine, name: str) -> None:
    """Refuse to read from a collection that does not exist: its name is probably mistyped."""
    from ragstone.catalog.collections import refuse_unknown_collection
    from ragstone.files import check_collection

    check_collection(name)
    # Another service has collections that the catalog does not know; a plain chat needs none.
    options = engine.settings.retrieve
    if options.enabled and options.retriever_name == "hybrid":
        refuse_unknown_collection(engine.catalog, name)


def choose_collections(engine: Engine, name: str | None) -> list[str]:
    """Return the collection of that name, which must exist, or all."""
    from ragstone.catalog.collections import refuse_unknown_collection

    known = engine.catalog.collections()
    if name and not known:
        raise NotFoundError("There are no collections yet.", hint="Try: ragstone ingest PATH…")
    if name:
        refuse_unknown_collection(engine.catalog, name)
    return [name] if name else known
