"""Run `ragstone history` and `sessions`: past queries and conversations."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.catalog import schema
from ragstone.catalog.sessions import format_as_markdown
from ragstone.cli import options
from ragstone.cli.answers import SourceNumbers, print_citations, print_text
from ragstone.cli.options import format_time, print_json, print_table, stdout
from ragstone.cli.search import complete_chunk_id, print_explanation
from ragstone.errors import InputError, SettingsError
from ragstone.filters import ANY_QUERY, HistoryFilter
from ragstone.messages import translate
from ragstone.types import LOCAL_OWNER, Citation

if TYPE_CHECKING:
    from ragstone.engine import Engine

Limit = Annotated[int, typer.Option(min=1, help="List at most this many.")]


def history(
    query_id: Annotated[str | None, typer.Argument(metavar="ID", help="Show this query.")] = None,
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
    """List past queries, newest first; show one; or delete some.

    The first characters of an id are enough. --json prints everything that is stored of a query,
    with its trace.

    Examples:

      ragstone history --limit 5

      ragstone history 3f1c… --json

      ragstone history 3f1c… --why-not 3f2a…:4

      ragstone history --owner alice --delete --yes
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        selection = HistoryFilter(owner, [collection] if collection else None, session_id=session)
        if query_id is not None:
            query_id = options.complete_id(engine.catalog, schema.queries.c.id, query_id)
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
        print_explanation(
            engine.explain_past(query_id, complete_chunk_id(engine, why_not)), as_json=as_json
        )
    else:
        found = engine.history.query(query_id)
        if as_json:
            print_json(found)
        else:
            _print_query(found)


def _print_query(found: dict[str, Any]) -> None:
    """Print question, answer, citations, notes and times; QUERY_LOG may have left out the texts."""
    numbers = SourceNumbers()
    console = stdout()
    place = f"collection {found['collection']}"
    if found["session_id"]:
        place += f" · session {found['session_id']}"
    console.print(f"[bold]? {escape(found['query'] or '–')}[/]\n")
    print_text(numbers.renumber(found["answer"] or "–"))
    print_citations((_to_citation(cited) for cited in found["citations"]), numbers)
    for note in found["notes"]:
        text = options.say("note: {}", translate(note, options.get_language()))
        console.print(f"[dim]{escape(text)}[/]")
    figures = f"{found['status']} · confidence {found['confidence'] or 0:.2f}"
    console.print(
        f"[dim]{figures} · {found['total_ms']:.0f} ms · {found['provider']} {found['model']}[/]"
    )
    when = format_time(found["created_at"])
    console.print(f"[dim]{when} UTC · {escape(place)} · {found['query_id']}[/]")


def _to_citation(stored: dict[str, Any]) -> Citation:
    """Return a stored citation; with QUERY_LOG=metadata it has no snippet."""
    names = {field.name for field in dataclasses.fields(Citation)}
    fields = {name: value for name, value in stored.items() if name in names}
    return Citation(**{"snippet": "", "relevance_score": 0.0, **fields})


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


def _complete_session(engine: Engine, owner: str, session_id: str) -> str:
    """Complete an id, but never one to delete: people choose ids, and one may begin another."""
    table = schema.sessions
    return options.complete_id(engine.catalog, table.c.id, session_id, table.c.owner == owner)


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
        session_id = _complete_session(engine, owner, session_id)
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
        print_text(SourceNumbers().renumber(turn.answer))
        stdout().print()


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
        session_id = _complete_session(engine, owner, session_id)
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
        session_id = _complete_session(engine, owner, session_id)
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
