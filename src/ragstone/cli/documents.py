"""`ragstone documents`: what a collection holds."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import out, print_json, print_table
from ragstone.types import DEFAULT_COLLECTION, Document

app = typer.Typer(no_args_is_help=True, help="List, show and delete documents.")


@app.command("list")
def list_documents(
    collection: options.Collection = DEFAULT_COLLECTION,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List the documents of a collection.

    Example:  ragstone documents list --collection wiki
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        documents = engine.documents(collection)
    finally:
        engine.close()
    if json:
        print_json([_without_text(document) for document in documents])
    elif documents:
        rows = [(d.id, d.status, d.chunk_count, d.name, d.error or "") for d in documents]
        print_table(["id", "status", "chunks", "name", "error"], rows)
    else:
        out().print(f"The collection '{collection}' is empty. Fill it with: ragstone ingest PATH…")


@app.command("show")
def show_document(
    document_id: Annotated[str, typer.Argument(help="As `ragstone documents list` prints it.")],
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Print the text of a document as it is stored; citations point into it.

    Example:  ragstone documents show 4f2a9c… | less
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        document = engine.catalog.document(document_id)
    finally:
        engine.close()
    if json:
        print_json(dataclasses.asdict(document))
    else:
        typer.echo(document.text)


@app.command("delete")
def delete_document(
    document_id: Annotated[str, typer.Argument(help="As `ragstone documents list` prints it.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Delete a document completely: text, vectors and terms.

    Example:  ragstone documents delete 4f2a9c…
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        asyncio.run(engine.delete(document_id))
    finally:
        engine.close()
    out().print(f"Deleted {document_id}.")


def _without_text(document: Document) -> dict[str, object]:
    fields = dataclasses.asdict(document)
    del fields["text"]
    return fields
