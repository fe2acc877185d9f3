"""Run `ragstone history` and `sessions`: past queries and conversations."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.catalog.sessions import format_as_markdown
from ragstone.cli import options
from ragstone.cli.options import format_time, print_json, print_table, stdout
from ragstone.cli.search import print_explanation
from ragstone.errors import InputError, SettingsError
from ragstone.filters import ANY_QUERY, HistoryFilter
from ragstone.types import LOCAL_OWNER

if TYPE_CHECKING:
    from ragstone.engine import Engine

Limit = Annotated[int, typer.Option(min=1, help="List at most this many.")]


def history(
    query_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Show this query in full.")
    ] = None,
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not", metavar="CHUNK", help="Show what each stage of it did with this chunk."
        ),
    ] = None,
    limit: Limit = 20,
    collection: Annotated[
        str | None,
        typer.Option("--collection", "-C", metavar="NAME", help="Only queries to this collection."),
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only queries of this session.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only queries of this key owner.")] = None,
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Delete the selected queries. Asks before several."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List past queries, newest first; show one in full with its trace; or delete some.

    Examples:

      ragstone history --limit 5

      ragstone history 3f1c… --json

      ragstone history 3f1c… --why-not 3f2a…:4

      ragstone history --owner alice --delete --yes
    """
    selection = HistoryFilter(owner, [collection] if collection else None, session_id=session)
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        entries = engine.history.queries(limit=limit, wanted=selection)
        if collection and not entries and query_id is None:
            options.require_collection(engine, collection)
        if delete:
            _delete_queries(engine, query_id, selection, why_not, yes=yes)
        elif query_id is not None or why_not is not None:
            _show_query(engine, query_id, why_not, as_json=json)
        elif json:
            print_json(entries)
        else:
            _print_queries(entries)


def _print_queries(entries: list[dict[str, Any]]) -> None:
    if not entries:
        stdout().print("No queries yet. Ask one with: ragstone ask 'Why …?'")
        return
    rows = [
        (
            format_time(entry["created_at"]),
            entry["query_id"],
            entry["status"],
            entry["query"] or "–",
        )
        for entry in entries
    ]
    print_table(["when (UTC)", "id", "status", "question"], rows)


def _show_query(
    engine: Engine, query_id: str | None, why_not: str | None, *, as_json: bool
) -> None:
    if query_id is None:
        raise InputError(
            "'--why-not' needs the id of a query.", hint="`ragstone history` lists the ids."
        )
    if why_not is not None:
        print_explanation(engine.explain_past(query_id, why_not), as_json=as_json)
    else:
        print_json(engine.history.query(query_id))


def _delete_queries(
    engine: Engine,
    query_id: str | None,
    selection: HistoryFilter,
    why_not: str | None,
    *,
    yes: bool,
) -> None:
    if why_not is not None:
        raise SettingsError(
            "'--why-not' and '--delete' cannot be combined.", hint="Leave one of them out."
        )
    if query_id is not None:
        engine.history.delete_query(query_id)
        stdout().print("Deleted 1 query.")
        return
    if selection == ANY_QUERY:
        raise SettingsError(
            "'--delete' needs a selection of queries.",
            hint="Add a query id, --session, --collection or --owner.",
        )
    if not yes:
        options.confirm_deletion(
            f"Delete all queries of {_describe_selection(selection)}?",
            "No query was deleted: a terminal is needed to confirm it.",
        )
    count = engine.history.delete_queries(selection)
    stdout().print(f"Deleted {count} {'query' if count == 1 else 'queries'}.")


def _describe_selection(selection: HistoryFilter) -> str:
    parts = [f"the owner '{selection.owner}'"] if selection.owner else []
    parts += [f"the collection '{name}'" for name in selection.collections or ()]
    parts += [f"the session '{selection.session_id}'"] if selection.session_id else []
    return " and ".join(parts)


sessions_app = typer.Typer(
    no_args_is_help=True, help="List, show, rename, export and delete conversations."
)

Owner = Annotated[
    str,
    typer.Option("--owner", metavar="NAME", help="Owner of the sessions; 'local' without keys."),
]
SessionId = Annotated[
    str, typer.Argument(metavar="ID", help="Session id from `ragstone sessions list`.")
]


@sessions_app.command("list")
def list_sessions(
    owner: Owner = LOCAL_OWNER,
    limit: Limit = 20,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List sessions, the last used first.

    Example:  ragstone sessions list --limit 5
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        listed = engine.history.list_sessions(owner, limit=limit)
    if json:
        print_json([dataclasses.asdict(session) for session in listed])
    elif listed:
        rows = [
            (format_time(s.updated_at), s.id, s.collection, s.turn_count, s.title) for s in listed
        ]
        print_table(["last used (UTC)", "id", "collection", "turns", "title"], rows)
    else:
        stdout().print("No sessions yet. Begin one with: ragstone chat")


@sessions_app.command("show")
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
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        session = engine.history.session(owner, session_id)
    if json:
        print_json(dataclasses.asdict(session))
        return
    if session.summary:
        stdout().print(
            f"[dim]summary of {session.summarised} turns:[/]\n{escape(session.summary)}\n"
        )
    for turn in session.turns:
        stdout().print(f"[bold cyan]›[/] [bold]{escape(turn.question)}[/]")
        if turn.searched_as:
            stdout().print(f"[dim]Searched as: {escape(turn.searched_as)}[/]")
        stdout().print(f"{escape(turn.answer)}\n")


@sessions_app.command("rename")
def rename_session(
    session_id: SessionId,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="New title.")],
    owner: Owner = LOCAL_OWNER,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Give a conversation a title.

    Example:  ragstone sessions rename 3f1c… 'Lease of the ridge'
    """
    if not title.strip():
        raise InputError(
            "The new title is empty.",
            hint="Write e.g. ragstone sessions rename ID 'Lease of the ridge'.",
        )
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        engine.history.rename_session(owner, session_id, title)
    stdout().print("Renamed 1 session.")


@sessions_app.command("export")
def export_session(
    session_id: SessionId,
    owner: Owner = LOCAL_OWNER,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Write a whole conversation to the standard output, as Markdown or JSON.

    Example:  ragstone sessions export holiday-plans > plans.md
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        session = engine.history.session(owner, session_id)
        cited = engine.history.session_citations(owner, session_id)
    if json:
        print_json(dataclasses.asdict(session))
    else:
        sys.stdout.write(format_as_markdown(session, cited))


@sessions_app.command("delete")
def delete_session(
    session_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Session id from `ragstone sessions list`.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete all sessions and queries of the owner.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete all sessions without asking.")
    ] = False,
    owner: Owner = LOCAL_OWNER,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Delete a conversation and its queries, or everything that an owner asked.

    --all asks first; a script needs --yes.

    Examples:

      ragstone sessions delete holiday-plans

      ragstone sessions delete --all --owner alice --yes
    """
    if (session_id is None) != everything:
        raise SettingsError(
            "Delete either one session or all of them.",
            hint="Give an id from `ragstone sessions list`, or add --all.",
        )
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        if session_id is not None:
            engine.history.delete_session(owner, session_id)
            stdout().print(f"Deleted {session_id}.", markup=False)
            return
        if not yes:
            options.confirm_deletion(
                f"Delete all sessions, queries and ratings of '{owner}'?",
                f"Nothing of '{owner}' was deleted: a terminal is needed to confirm it.",
            )
        sessions, queries = engine.history.delete_owner(owner)
        stdout().print(
            f"Deleted {sessions} sessions and {queries} queries of {owner}.", markup=False
        )
