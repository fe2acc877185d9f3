"""Register the commands of `ragstone`, and print their errors as a sentence with a hint."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ragstone import __version__
from ragstone.cli import (
    ask,
    chat,
    compare,
    documents,
    evaluate,
    feedback,
    history,
    ingest,
    maintain,
    reembed,
    search,
    serve,
    setup,
)
from ragstone.cli.options import print_error
from ragstone.errors import RagstoneError, SettingsError

_SUMMARY = "Answer questions from your own documents, with citations that can be checked."

app = typer.Typer(
    name="ragstone",
    help=_SUMMARY,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with:  ragstone demo  ·  ragstone ingest DOCUMENTS/  ·  ragstone ask 'Why …?'",
)
app.command("demo")(ask.demo)
app.command("setup")(setup.setup)
app.command("ingest")(ingest.ingest)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("search")(search.search)
app.command("check")(ask.check)
app.command("eval")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("tune")(evaluate.tune)
app.command("serve")(serve.serve)
app.command("worker")(ingest.worker)
app.add_typer(ingest.jobs_app, name="jobs")
app.add_typer(serve.keys_app, name="keys")
app.command("mcp")(serve.mcp)
app.add_typer(documents.app, name="documents")
app.command("history")(history.history)
app.add_typer(history.sessions_app, name="sessions")
app.command("feedback")(feedback.feedback)
app.add_typer(feedback.consent_app, name="consent")
app.add_typer(maintain.models_app, name="models")
app.command("settings")(maintain.settings)
app.command("reindex")(maintain.reindex)
app.command("reembed")(reembed.embed_again)
app.command("backup")(maintain.backup)
app.command("restore")(maintain.restore)
app.command("doctor")(maintain.doctor)


def _hide_type_of_flags() -> None:
    """Print nothing behind a flag in the help: Typer 0.29 prints <bool>."""
    from typer.core import TyperOption

    original = getattr(TyperOption, "display_type_rich", None)
    if original is not None:

        def display(self: Any, ctx: Any) -> Any:
            return None if self.is_flag else original(self, ctx)

        # The attribute is in some releases of Typer only, so the types do not know it.
        setattr(TyperOption, "display_type_rich", display)  # noqa: B010


_hide_type_of_flags()


def _join_help_lines(group: typer.Typer) -> None:
    """Make each paragraph of the help one line: Typer keeps the line breaks of the source."""
    for command in group.registered_commands:
        command.help = join_lines(command.help or getattr(command.callback, "__doc__", None) or "")
    info = group.registered_callback
    if info is not None and not isinstance(info.help, str):
        info.help = join_lines(getattr(info.callback, "__doc__", None) or "")
    for one in group.registered_groups:
        if one.typer_instance is not None:
            _join_help_lines(one.typer_instance)


def join_lines(text: str) -> str:
    """Join the lines of each paragraph; indented ones, the examples, stay as they are."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        one if one.startswith(" ") else " ".join(one.splitlines()) for one in paragraphs
    )


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ragstone {__version__}")
        raise typer.Exit


@app.callback(help=_SUMMARY)
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Print warnings about the settings like our errors; no other logging is set up yet."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    logging.getLogger("ragstone.settings").addHandler(handler)
    # A command prints what it has to say itself; the server sets up its own log.
    logging.getLogger("ragstone").addHandler(logging.NullHandler())


_join_help_lines(app)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print an error that we understand and exit: 2 for wrong settings or flags, else 1."""
    try:
        yield
    except RagstoneError as error:
        print_error(error)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
