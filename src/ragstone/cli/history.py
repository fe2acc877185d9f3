"""`ragstone history`: what was asked, newest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import out, print_json, print_table
from ragstone.errors import SettingsError
from ragstone.types import ANY_QUERY, HistoryFilter

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
