"""`ragstone eval`: how good retrieval and answers are, on a dataset or on one's own documents."""

from __future__ import annotations

import asyncio
import json as json_module
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.options import err, out, print_json, print_table, telling
from ragstone.errors import InputError
from ragstone.types import DEFAULT_COLLECTION, RetrievalMethod

if TYPE_CHECKING:
    from ragstone.evaluate.datasets import Dataset
    from ragstone.evaluate.run import Run
    from ragstone.evaluate.summary import Summary
    from ragstone.evaluate.workbench import Told
    from ragstone.settings import Settings


DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A BEIR folder, or a file of questions (.jsonl, .json).", readable=False,
        metavar="DATASET",
    ),
]  # fmt: skip
FromDocuments = Annotated[
    bool, typer.Option("--from-documents", help="Make the questions from the collection itself.")
]
Count = Annotated[
    int, typer.Option("--count", min=1, help="How many questions to make from documents.")
]
Seed = Annotated[int, typer.Option("--seed", help="Which ones: the same seed, the same questions.")]
WithModel = Annotated[
    bool, typer.Option("--with-model", help="Let the provider's model write the questions.")
]
Again = Annotated[bool, typer.Option("--again", help="Ask everything anew, whatever is known.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Ask at most this many, an even sample.")
]
Work = Annotated[
    Path | None,
    typer.Option("--work", metavar="DIR", help="Where datasets and results are kept."),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if", metavar="CONDITION",
        help="Leave with exit code 3 when it holds, e.g. 'ndcg@10 < 0.6'; may be repeated.",
    ),
]  # fmt: skip
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "--settings", "-c", metavar="FILE", readable=False,
        help="A settings file to read.",
    ),
]  # fmt: skip


def evaluate(
    dataset: DatasetArgument = None,
    from_documents: FromDocuments = False,
    collection: options.Collection = DEFAULT_COLLECTION,
    method: Annotated[
        str | None, typer.Option(help="semantic, keyword or hybrid (default).")
    ] = None,
    answers: Annotated[
        bool | None,
        typer.Option(
            "--answers/--no-answers",
            help="Write answers and measure them too (default: when the dataset knows answers).",
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines", help="Also measure BM25 and embeddings, each alone."
        ),
    ] = True,
    judge: Annotated[
        bool, typer.Option("--judge", help="Let the provider's model judge the answers too.")
    ] = False,
    count: Count = 200,
    seed: Seed = 0,
    with_model: WithModel = False,
    limit: Limit = None,
    again: Again = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write a report: .html, or .md."),
    ] = None,
    fail_if: FailIf = None,
    work: Work = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: SettingsFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Measure retrieval and answers on a dataset, or on questions made from your own documents.

    The documents of a dataset are kept beside your own and never among them. A run that was
    stopped goes on where it was.

    Examples:

      ragstone eval datasets/scifact --report scifact.html

      ragstone eval --from-documents --count 100 --seed 7

      ragstone eval questions.jsonl --preset careful --json
    """
    from ragstone.evaluate.compare import check_conditions, parse_condition

    conditions = [parse_condition(written, systems=1) for written in fail_if or ()]
    if report is not None:
        options.make_folder(report.parent, "--report")
    flags: dict[str, Any] = {"retrieve.method": method, "evaluate.directory": work}
    settings = options.load(data, config, preset, set, **flags).settings
    with telling() as told:
        questions = questions_of(
            dataset, settings, collection, from_documents=from_documents, count=count, seed=seed,
            with_model=with_model, told=told,
        ).limited(limit)  # fmt: skip
        runs = asyncio.run(
            _runs(questions, settings, collection, answers=answers, judge=judge, again=again,
                  baselines=baselines, told=told)
        )  # fmt: skip
    from ragstone.evaluate.report import write_report
    from ragstone.evaluate.summary import summarised

    tell_failures(runs)
    summaries = {run.name: summarised(run) for run in runs}
    written = write_report(runs, summaries, report)
    if json:
        print_json(_as_dict(runs, summaries, written))
    else:
        print_summaries(runs, summaries)
        out().print(
            f"[dim]report {escape(str(written))} · results {escape(str(runs[0].directory))}[/]"
        )
    failed = check_conditions(conditions, summaries[runs[0].name])
    for sentence in failed:
        err().print(f"[bold red]gate:[/] {escape(sentence)}")
    if failed:
        raise typer.Exit(3)


def questions_of(
    dataset: Path | None, settings: Settings, collection: str, *, from_documents: bool,
    count: int, seed: int, with_model: bool, told: Told,
) -> Dataset:  # fmt: skip
    """The dataset that is named, or one made from the documents."""
    from ragstone.evaluate.datasets import load_dataset
    from ragstone.evaluate.questions import questions_from_documents

    if dataset is not None and not from_documents:
        return _checked(load_dataset(dataset), dataset, settings, collection)
    if dataset is not None:
        raise InputError(
            "A dataset and --from-documents were both given.", hint="Choose one of the two."
        )
    if not from_documents:
        raise InputError(
            "There are no questions to ask.", hint="Name a dataset, or add --from-documents."
        )
    from ragstone.engine import Engine

    engine = Engine(settings)
    try:
        options.require_collection(engine, collection)
        return asyncio.run(
            questions_from_documents(
                engine, collection, count=count, seed=seed, use_model=with_model, told=told
            )
        )
    finally:
        engine.close()


def _checked(loaded: Dataset, path: Path, settings: Settings, collection: str) -> Dataset:
    """A dataset that brings no documents must speak of those that there are."""
    from ragstone.engine import Engine
    from ragstone.evaluate.workbench import check_documents

    if not loaded.passages:
        engine = Engine(settings)
        try:
            check_documents(loaded, path, engine, collection)
        finally:
            engine.close()
    return loaded


async def _runs(
    dataset: Dataset, settings: Settings, collection: str, *, answers: bool | None, judge: bool,
    again: bool, baselines: bool, told: Told,
) -> list[Run]:  # fmt: skip
    """The run of the settings, and those of the two searches alone."""
    from ragstone.evaluate.run import SEARCH_ALONE, Options, run_questions
    from ragstone.evaluate.workbench import Workbench, changed

    bench = Workbench(dataset, settings, collection=collection)
    bench.prepare(told)
    given = all(question.given is not None for question in dataset.questions)
    wanted = dataset.has_answers or judge if answers is None else answers
    chosen = Options(answers=wanted, judge=judge, again=again)
    runs = [await run_questions(bench, settings, chosen, name=settings.preset, told=told)]
    if baselines and dataset.has_targets and not given:
        plain = changed(settings, SEARCH_ALONE)
        searches: dict[str, RetrievalMethod] = {"BM25 alone": "keyword", "dense alone": "semantic"}
        for name, method in searches.items():
            alone = Options(method=method, again=again)
            runs.append(await run_questions(bench, plain, alone, name=name, told=told))
    return runs


def print_summaries(runs: list[Run], summaries: dict[str, Summary]) -> None:
    from ragstone.evaluate.summary import shown

    dataset = runs[0].dataset
    out().print(
        f"[bold]{escape(dataset.name)}[/] · {len(dataset.questions)} questions · "
        f"{len(dataset.passages) or 'your own'} documents"
    )
    names = list(summaries)
    rows = []
    for figure in summaries[names[0]].figures:
        others = [summaries[name].figure(figure.name) for name in names[1:]]
        bounds = "–".join(shown(figure.name, bound) for bound in figure.interval)
        rows.append(
            [figure.name, shown(figure.name, figure.mean),
             bounds if figure.has_interval else "–", figure.count,
             *(shown(one.name, one.mean) if one else "–" for one in others)]
        )  # fmt: skip
    print_table(["measure", names[0], "95 %", "questions", *names[1:]], rows)
    stages = summaries[names[0]].stages
    if stages:
        out().print("[dim]stage, median and p95 in ms:[/]")
        print_table(["stage", "p50", "p95"], [(name, *times) for name, times in stages.items()])


def tell_failures(runs: Sequence[Run]) -> None:
    """How many questions of each run failed, and why the first of them did."""
    for run in runs:
        failures = [one.error for one in run.outcomes if one.error]
        if failures:
            err().print(
                f"[yellow]{escape(run.name)}: {len(failures)} questions failed:[/] "
                f"{escape(failures[0])}"
            )


def _as_dict(runs: list[Run], summaries: dict[str, Summary], report: Path) -> dict[str, Any]:
    return {
        "dataset": runs[0].dataset.name,
        "questions": len(runs[0].dataset.questions),
        "report": str(report),
        "runs": {
            run.name: {"results": str(run.directory / "results.jsonl"),
                       **summaries[run.name].as_dict()}
            for run in runs
        },
    }  # fmt: skip


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
    from ragstone.evaluate.report import as_dict, html_page, markdown_page
    from ragstone.evaluate.tune import settings_file
    from ragstone.evaluate.tune import tune as search
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
