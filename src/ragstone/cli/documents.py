"""`ragstone documents`: what a collection holds."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import err, out, print_json, print_table
from ragstone.errors import InputError
from ragstone.types import DEFAULT_COLLECTION, Document

app = typer.Typer(invoke_without_command=True)


@app.callback()
def documents(
    context: typer.Context,
    collection: options.Collection = DEFAULT_COLLECTION,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List, show and delete documents. Without a subcommand they are listed.

    Example:  ragstone documents
    """
    if context.invoked_subcommand is None:
        list_documents(collection, json, data, config)
        return
    # `ragstone documents --data DIR delete ID` must not delete in another directory than DIR.
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            wanted = context.invoked_subcommand
            raise typer.BadParameter(f"Put --{name} after '{wanted}', not before it.", context)


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
        options.require_collection(engine, collection)
        found = engine.documents(collection)
    finally:
        engine.close()
    if json:
        print_json([_without_text(document) for document in found])
    elif found:
        rows = [(d.id, d.status, d.chunk_count, d.name, d.error or "") for d in found]
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Delete a document completely: text, vectors and terms. Asks first; a script needs --yes.

    Examples:

      ragstone documents delete 4f2a9c…

      ragstone documents delete 4f2a9c… --yes
    """
    engine = options.open_engine(options.load(data, config, None, None))
    try:
        document = engine.catalog.document(document_id)
        if not yes:
            _ask_to_delete(document)
        asyncio.run(engine.delete(document_id))
    finally:
        engine.close()
    out().print(f"Deleted '{document.name}' ({document_id}).", markup=False)


def _ask_to_delete(document: Document) -> None:
    """Show what would be deleted and go on only if the answer is yes."""
    if not sys.stdin.isatty():
        raise InputError(
            f"'{document.name}' was not deleted: there is no terminal to ask at.",
            hint="Add --yes to delete it without being asked.",
        )
    question = f"Delete '{document.name}' from the collection '{document.collection}'?"
    if not typer.confirm(question, err=True):
        err().print("Nothing was deleted.")
        raise typer.Exit(1)


def _without_text(document: Document) -> dict[str, object]:
    fields = dataclasses.asdict(document)
    del fields["text"]
    return fields
