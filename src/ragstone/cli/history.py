"""`ragstone history`: what was asked, newest first."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.options import out, print_json, print_table
from ragstone.errors import SettingsError
from ragstone.types import ANY_QUERY, LOCAL_OWNER, HistoryFilter

if TYPE_CHECKING:
    from ragstone.engine import Engine


def history(
    query_id: Annotated[str | None, typer.Argument(help="One query in full.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    collection: Annotated[
        str | None, typer.Option("--collection", "-C", metavar="NAME", help="Only about this one.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only of this owner of a key.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Forget what is named.")] = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List past queries, print one in full with its trace, or forget some.

    Examples:

      ragstone history --limit 5

      ragstone history 3f1c… --json

      ragstone history --owner alice --delete
    """
    wanted = HistoryFilter(owner, [collection] if collection else None, session_id=session)
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        if delete:
            _delete(engine, query_id, wanted)
            return
        if query_id is not None:
            print_json(engine.history.query(query_id))
            return
        entries = engine.history.queries(limit=limit, wanted=wanted)
        if collection and not entries:
            options.require_collection(engine, collection)
    finally:
        engine.close()
    if json:
        print_json(entries)
    elif entries:
        rows = [
            (
                datetime.fromtimestamp(entry["created_at"], UTC).strftime("%Y-%m-%d %H:%M:%S"),
                entry["query_id"],
                entry["status"],
                entry["query"] or "–",
            )
            for entry in entries
        ]
        print_table(["when (UTC)", "id", "status", "question"], rows)
    else:
        out().print("No queries yet. Ask one with: ragstone ask 'Why …?'")


def _delete(engine: Engine, query_id: str | None, wanted: HistoryFilter) -> None:
    if query_id is not None:
        engine.history.delete_query(query_id)
        out().print("Deleted 1 query.")
        return
    if wanted == ANY_QUERY:
        raise SettingsError(
            "'--delete' needs to be told what to forget.",
            hint="Name a query, or add --session, --collection or --owner.",
        )
    gone = engine.history.delete_queries(wanted)
    out().print(f"Deleted {gone} {'query' if gone == 1 else 'queries'}.")


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
