"""`ragstone tune`: settings that fit one's own questions, found on one half, checked on another."""

from __future__ import annotations

import asyncio
import json as json_module
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.eval import (
    Count,
    DatasetArgument,
    FromDocuments,
    Seed,
    SettingsFile,
    WithModel,
    Work,
    questions_of,
)
from ragstone.cli.progress import telling
from ragstone.cli.terminal import out, print_json, print_table
from ragstone.types import DEFAULT_COLLECTION


def tune(
    dataset: DatasetArgument = None,
    from_documents: FromDocuments = False,
    collection: options.Collection = DEFAULT_COLLECTION,
    questions: Annotated[
        int, typer.Option("--questions", min=20, help="Most questions to tune on.")
    ] = 400,
    check: Annotated[
        int, typer.Option("--check", min=20, help="Most questions to check on.")
    ] = 1000,
    output: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where settings and plots go.")
    ] = Path("tuned"),
    count: Count = 400,
    seed: Seed = 0,
    with_model: WithModel = False,
    work: Work = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: SettingsFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Search for better settings on half of the questions and check them on the other half.

    Tries BM25's k1 and b, the fusion weight, the number of candidates, the diversity λ, the
    rerank depth and weight (where a cross-encoder is in use), and recommends a similarity
    threshold. Writes ragstone.toml, tune.html, tune.md and tune.json.

    Examples:

      ragstone tune datasets/squad2 --out tuned/

      ragstone tune --from-documents --count 600

      ragstone ask "Who signed the lease?" --config tuned/ragstone.toml
    """
    from ragstone.evaluate.tune import settings_file
    from ragstone.evaluate.tune import tune as search
    from ragstone.evaluate.tune_report import as_dict, html_page, markdown_page
    from ragstone.evaluate.workbench import Workbench

    options.make_folder(output, "--out")
    flags: dict[str, Any] = {"evaluate.directory": work}
    settings = options.load(data, config, preset, set, **flags).settings
    with telling() as told:
        asked = questions_of(
            dataset, settings, collection, from_documents=from_documents, count=count, seed=seed,
            with_model=with_model, told=told,
        )  # fmt: skip
        bench = Workbench(asked, settings, collection=collection)
        bench.prepare(told)
        tuned = asyncio.run(search(bench, most=questions, check=check, told=told))
    toml = settings_file(tuned, when=datetime.now(UTC).strftime("%Y-%m-%d"))
    found = as_dict(tuned)
    for name, text in (
        ("ragstone.toml", toml),
        ("tune.html", html_page(tuned, toml)),
        ("tune.md", markdown_page(tuned, toml)),
        ("tune.json", json_module.dumps(found, indent=2)),
    ):
        (output / name).write_text(text, "utf-8")
    if json:
        print_json(found)
        return
    rows = [
        (one.path, f"{one.before:g}", f"{one.taken:g}", f"{max(t.quality for t in one.tried):.4f}")
        for one in tuned.swept
    ]
    print_table(["setting", "before", "taken", "best nDCG@10 tried"], rows)
    for path, value in tuned.values.items():
        out().print(f"[green]set[/] {path} = {value:g}")
    out().print(f"recommended threshold: RAG_MIN_SIMILARITY={tuned.threshold:g}")
    out().print(f"[bold]{escape(tuned.sentence)}[/]")
    out().print(f"[dim]wrote {escape(str(output))}/ragstone.toml, tune.html, tune.md, tune.json[/]")
