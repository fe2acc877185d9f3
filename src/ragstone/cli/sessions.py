"""`ragstone sessions`: conversations, listed, read and forgotten."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.terminal import out, print_json, print_table
from ragstone.errors import SettingsError
from ragstone.types import LOCAL_OWNER

app = typer.Typer(no_args_is_help=True, help="List, show and delete conversations.")

Owner = Annotated[
    str, typer.Option("--owner", metavar="NAME", help="Whose; without keys it is 'local'.")
]
SessionId = Annotated[str, typer.Argument(help="As `ragstone sessions list` prints it.")]


@app.command("list")
def list_sessions(
    owner: Owner = LOCAL_OWNER,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List sessions, the one used last first.

    Example:  ragstone sessions list --limit 5
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        found = engine.history.session_list(owner, limit=limit)
    finally:
        engine.close()
    if json:
        print_json([dataclasses.asdict(one) for one in found])
    elif found:
        rows = [(_when(s.updated_at), s.id, s.collection, s.turn_count, s.title) for s in found]
        print_table(["last used (UTC)", "id", "collection", "turns", "begins with"], rows)
    else:
        out().print("No sessions yet. Begin one with: ragstone chat")


@app.command("show")
def show_session(
    session_id: SessionId,
    owner: Owner = LOCAL_OWNER,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Print a conversation, turn by turn.

    Example:  ragstone sessions show holiday-plans
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        session = engine.history.session(owner, session_id)
    finally:
        engine.close()
    if json:
        print_json(dataclasses.asdict(session))
        return
    if session.summary:
        out().print(f"[dim]summary of {session.summarised} turns:[/]\n{escape(session.summary)}\n")
    for turn in session.turns:
        out().print(f"[bold cyan]›[/] [bold]{escape(turn.question)}[/]")
        out().print(f"{escape(turn.answer)}\n")


@app.command("delete")
def delete_session(
    session_id: Annotated[
        str | None, typer.Argument(help="As `ragstone sessions list` prints it.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that the owner ever asked, in sessions or not.")
    ] = False,
    owner: Owner = LOCAL_OWNER,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Forget a conversation and the queries that were asked in it, or everything of an owner.

    Examples:

      ragstone sessions delete holiday-plans

      ragstone sessions delete --all --owner alice
    """
    if (session_id is None) != everything:
        raise SettingsError(
            "Either one session or all of them can be deleted.",
            hint="Name one as `ragstone sessions list` prints it, or add --all.",
        )
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        if session_id is not None:
            engine.history.delete_session(owner, session_id)
            out().print(f"Deleted {session_id}.", markup=False)
            return
        sessions, queries = engine.history.delete_owner(owner)
        out().print(f"Deleted {sessions} sessions and {queries} queries of {owner}.", markup=False)
    finally:
        engine.close()


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
