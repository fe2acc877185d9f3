"""`ragstone history`: what was asked, newest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import out, print_json, print_table


def history(
    query_id: Annotated[str | None, typer.Argument(help="One query in full.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List past queries, or print one in full with its trace.

    Examples:

      ragstone history --limit 5

      ragstone history 3f1c… --json
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        if query_id is not None:
            print_json(engine.catalog.query(query_id))
            return
        entries = engine.catalog.queries(limit=limit)
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
