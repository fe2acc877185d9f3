"""`ragstone`: the commands by name, and their failures as a sentence with a hint."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ragstone import __version__
from ragstone.cli import ask, chat, compare, documents, history, ingest, keys, search, serve
from ragstone.cli import ask as check
from ragstone.cli import ask as demo
from ragstone.cli import evaluate as evaluation
from ragstone.cli import evaluate as tune
from ragstone.cli import history as sessions
from ragstone.cli import maintain as models
from ragstone.cli import maintain as settings
from ragstone.cli import maintain as upkeep
from ragstone.cli import serve as mcp
from ragstone.cli.options import fail
from ragstone.errors import RagstoneError

app = typer.Typer(
    name="ragstone",
    help="Answers questions from your own documents, with citations that can be checked.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with:  ragstone demo  ·  ragstone ingest DOCUMENTS/  ·  ragstone ask 'Why …?'",
)
app.command("demo")(demo.demo)
app.command("ingest")(ingest.ingest)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("search")(search.search)
app.command("check")(check.check)
app.command("eval")(evaluation.evaluate)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("serve")(serve.serve)
app.add_typer(keys.app, name="keys")
app.command("mcp")(mcp.mcp)
app.add_typer(documents.app, name="documents")
app.command("history")(history.history)
app.add_typer(sessions.app, name="sessions")
app.add_typer(models.app, name="models")
app.command("settings")(settings.settings)
app.command("reindex")(upkeep.reindex)
app.command("backup")(upkeep.backup)
app.command("restore")(upkeep.restore)
app.command("doctor")(upkeep.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragstone {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Answers questions from your own documents, with citations that can be checked."""
    # What the settings warn of looks like our errors; nothing else has set up logging yet.
    warned = logging.StreamHandler()
    warned.setFormatter(logging.Formatter("warning: %(message)s"))
    logging.getLogger("ragstone.settings").addHandler(warned)


@contextmanager
def explained() -> Iterator[None]:
    """Print a failure that we understand and leave with exit code 1."""
    try:
        yield
    except RagstoneError as error:
        fail(error)
        sys.exit(1)
