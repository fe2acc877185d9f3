"""`ragstone ask`: one question, one answer with its sources."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import err, print_answer, print_json, print_trace
from ragstone.types import DEFAULT_COLLECTION


def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotation marks.")],
    collection: options.Collection = DEFAULT_COLLECTION,
    method: Annotated[
        str | None, typer.Option(help="semantic, keyword or hybrid (default).")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="How many sources to read.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every stage with its time.")] = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Answer a question from the documents of a collection.

    Examples:

      ragstone ask "How long is the notice period?"

      ragstone ask "What changed in 2025?" --collection minutes --trace

      ragstone ask "Who signed the lease?" --json | jq .citations
    """
    loaded = options.load(
        data, config, preset, set, **{"retrieve.method": method, "refine.top_k": top_k}
    )
    engine = options.open_engine(loaded)
    try:
        options.require_collection(engine, collection)
        answer = engine.ask_sync(question, collection=collection)
        if not answer.sources and not engine.documents(collection, limit=1):
            err().print(
                f"[dim]hint:[/] The collection '{collection}' is empty; "
                "fill it with: ragstone ingest DOCUMENTS/"
            )
    finally:
        engine.close()
    if json:
        from ragstone.server.schemas import QueryReply

        print_json(QueryReply.of(answer, with_trace=trace).model_dump(mode="json"))
        return
    print_answer(answer)
    if trace:
        print_trace(answer)
