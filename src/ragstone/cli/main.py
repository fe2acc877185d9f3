"""`ragstone`: finds the command, turns failures into a sentence and an exit code.

Exit codes: 0 well, 1 a failure that is explained, 2 a wrong command line, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ragstone import __version__
from ragstone.cli import ask, demo, documents, history, ingest, models, serve, settings
from ragstone.cli.terminal import fail
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
app.command("serve")(serve.serve)
app.add_typer(documents.app, name="documents")
app.command("history")(history.history)
app.add_typer(models.app, name="models")
app.command("settings")(settings.settings)


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


def run() -> None:
    """The entry point: no traceback ever reaches a user for a failure that we understand."""
    try:
        app(standalone_mode=True)
    except RagstoneError as error:
        fail(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # `ragstone history | head`: the reader has enough.
        sys.stderr.close()
        sys.exit(0)
