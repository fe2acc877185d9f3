"""Run `ragstone documents`: list, show and delete the documents of a collection."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.catalog import schema
from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stdout
from ragstone.errors import InputError
from ragstone.types import DEFAULT_COLLECTION, Document

if TYPE_CHECKING:
    from ragstone.engine import Engine

app = typer.Typer(invoke_without_command=True)

DocumentId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Document id from `ragstone documents list`, or its first characters."
    ),
]


@app.callback()
def documents(
    context: typer.Context,
    collection: options.Collection = DEFAULT_COLLECTION,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List, show and delete documents. Without a subcommand, list them.

    Example:  ragstone documents
    """
    if context.invoked_subcommand is None:
        list_documents(collection, json, data, config)
        return
    # `ragstone documents --data DIR delete ID` must not delete in another directory than DIR.
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            subcommand = context.invoked_subcommand
            raise typer.BadParameter(f"Put --{name} after '{subcommand}', not before it.", context)


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
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        options.require_collection(engine, collection)
        listed = engine.documents(collection)
    if json:
        print_json([_dump_without_text(document) for document in listed])
    elif listed:
        rows = [(d.id, d.status, d.chunk_count, d.name, d.error or "") for d in listed]
        print_table(["id", "status", "chunks", "name", "error"], rows)
    else:
        stdout().print(
            f"The collection '{collection}' is empty. Fill it with: ragstone ingest PATH…"
        )


@app.command("show")
def show_document(
    document_id: DocumentId,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Print the text of a document as it is stored; citations point into it.

    Example:  ragstone documents show 4f2a9c… | less
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        document = _find_document(engine, document_id)
    if json:
        print_json(dataclasses.asdict(document))
    elif document.error:
        raise InputError(
            f"'{document.name}' has no text: {document.error}",
            hint="Repair the file and ingest it again.",
        )
    else:
        typer.echo(document.text)


@app.command("delete")
def delete_document(
    document_id: DocumentId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Delete a document completely: text, vectors and terms. Asks first; a script needs --yes.

    Examples:

      ragstone documents delete 4f2a9c…

      ragstone documents delete 4f2a9c… --yes
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        document = _find_document(engine, document_id)
        if not yes:
            options.confirm_deletion(
                f"Delete '{document.name}' from the collection '{document.collection}'?",
                f"'{document.name}' was not deleted: a terminal is needed to confirm it.",
            )
        asyncio.run(engine.delete(document.id))
    stdout().print(f"Deleted '{document.name}' ({document.id}).", markup=False)


def _find_document(engine: Engine, document_id: str) -> Document:
    catalog = engine.catalog
    return catalog.document(options.complete_id(catalog, schema.documents.c.id, document_id))


def _dump_without_text(document: Document) -> dict[str, object]:
    fields = dataclasses.asdict(document)
    del fields["text"]
    return fields
