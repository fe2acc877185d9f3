"""Run `ragstone eval` and `ragstone tune`: measure answers, and search for better settings."""

from __future__ import annotations

import asyncio
import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, show_progress, stderr, stdout
from ragstone.errors import InputError
from ragstone.types import DEFAULT_COLLECTION, RetrievalMethod

if TYPE_CHECKING:
    from ragstone.evaluate.datasets import Dataset
    from ragstone.evaluate.run import Options, Run
    from ragstone.evaluate.summary import Summary
    from ragstone.evaluate.tune import TuningResult
    from ragstone.evaluate.workbench import Progress
    from ragstone.settings import Settings


DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        help="BEIR folder, or file of questions (.jsonl, .json).", readable=False, metavar="DATASET"
    ),
]
FromDocuments = Annotated[
    bool, typer.Option("--from-documents", help="Make the questions from the collection itself.")
]
Answers = Annotated[
    bool | None,
    typer.Option(
        "--answers/--no-answers",
        help="Write and measure answers too (default: if the dataset has answers).",
    ),
]
Baselines = Annotated[
    bool,
    typer.Option(
        "--baselines/--no-baselines", help="Also measure keyword and semantic search alone."
    ),
]
Judge = Annotated[
    bool, typer.Option("--judge", help="Let the provider's model judge the answers too.")
]
Count = Annotated[
    int, typer.Option("--count", min=1, help="Number of questions to make from documents.")
]
Seed = Annotated[int, typer.Option("--seed", help="Same seed, same questions from documents.")]
WithModel = Annotated[
    bool, typer.Option("--with-model", help="Let the provider's model write the questions.")
]
Again = Annotated[bool, typer.Option("--again", help="Ask again; ignore stored results.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Ask at most this many, an even sample.")
]
Work = Annotated[
    Path | None, typer.Option("--work", metavar="DIR", help="Directory of datasets and results.")
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a report (.html or .md).")
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="CONDITION",
        help="Exit with code 3 if it holds, e.g. 'ndcg@10 < 0.6'; may be repeated.",
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "--settings",
        "-c",
        metavar="FILE",
        readable=False,
        help="Read this settings file.",
    ),
]
TuningQuestions = Annotated[
    int, typer.Option("--questions", min=20, help="Tune on at most this many questions.")
]
CheckQuestions = Annotated[
    int, typer.Option("--check", min=20, help="Check on at most this many questions.")
]
Output = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Write settings and plots here.")
]


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """State how to make questions from documents."""

    count: int
    seed: int
    with_model: bool


def evaluate(
    dataset: DatasetArgument = None,
    from_documents: FromDocuments = False,
    collection: options.Collection = DEFAULT_COLLECTION,
    method: options.Method = None,
    answers: Answers = None,
    baselines: Baselines = True,
    judge: Judge = False,
    count: Count = 200,
    seed: Seed = 0,
    with_model: WithModel = False,
    limit: Limit = None,
    again: Again = False,
    report: Report = None,
    fail_if: FailIf = None,
    work: Work = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: SettingsFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Measure retrieval and answers on a dataset, or on questions made from your own documents.

    A dataset's documents are stored apart from your own. A run that was stopped continues where it
    stopped.

    Examples:

      ragstone eval datasets/scifact --report scifact.html

      ragstone eval --from-documents --count 100 --seed 7

      ragstone eval questions.jsonl --preset careful --json
    """
    from ragstone.evaluate.compare import check_conditions, parse_condition
    from ragstone.evaluate.run import Options
    from ragstone.evaluate.summary import summarise_run

    conditions = [parse_condition(text, systems=1) for text in fail_if or ()]
    if report is not None:
        options.create_folder(report.parent, "--report")
    flags: dict[str, Any] = {"retrieve.method": method, "evaluate.directory": work}
    settings = options.load_settings(data, config, preset, set, **flags).settings
    making = QuestionOptions(count, seed, with_model) if from_documents else None
    with show_progress() as progress:
        questions = load_questions(dataset, settings, collection, making, progress)
        questions = questions.take_sample(limit)
        with_answers = questions.has_answers or judge if answers is None else answers
        chosen = Options(answers=with_answers, judge=judge, again=again)
        runs = asyncio.run(_run_all(questions, settings, collection, chosen, baselines, progress))
    print_failures(runs)
    summaries = {run.name: summarise_run(run) for run in runs}
    _print_evaluation(runs, summaries, report, as_json=json)
    exit_if_failed(check_conditions(conditions, summaries[runs[0].name]))


def exit_if_failed(failures: Sequence[str]) -> None:
    """Print the conditions of --fail-if that hold, and exit with code 3 if there are any."""
    for failure in failures:
        stderr().print(f"[bold red]gate:[/] {escape(failure)}")
    if failures:
        raise typer.Exit(3)


def load_questions(
    dataset: Path | None,
    settings: Settings,
    collection: str,
    making: QuestionOptions | None,
    progress: Progress,
) -> Dataset:
    """Read the named dataset, or make one from the documents of the collection."""
    from ragstone.engine import Engine
    from ragstone.evaluate.datasets import load_dataset
    from ragstone.evaluate.questions import make_questions
    from ragstone.evaluate.workbench import require_documents

    if dataset is None and making is None:
        raise InputError(
            "There are no questions to ask.", hint="Name a dataset, or add --from-documents."
        )
    if dataset is not None and making is not None:
        raise InputError(
            "A dataset and --from-documents were both given.", hint="Choose one of the two."
        )
    loaded = load_dataset(dataset) if dataset is not None else None
    if loaded is not None and loaded.passages:
        return loaded
    engine = Engine(settings)
    try:
        if loaded is not None and dataset is not None:
            require_documents(loaded, dataset, engine, collection)
            return loaded
        assert making is not None
        options.require_collection(engine, collection)
        if not making.with_model:
            stderr().print(
                "Without --with-model the questions are words of the documents: they measure the "
                "search, not the answers."
            )
        return asyncio.run(
            make_questions(
                engine,
                collection,
                count=making.count,
                seed=making.seed,
                use_model=making.with_model,
                progress=progress,
            )
        )
    finally:
        engine.close()


async def _run_all(
    dataset: Dataset,
    settings: Settings,
    collection: str,
    chosen: Options,
    baselines: bool,
    progress: Progress,
) -> list[Run]:
    """Run the settings, and keyword and semantic search alone as baselines."""
    from ragstone.evaluate.run import SEARCH_ALONE, Options, run_questions
    from ragstone.evaluate.workbench import Workbench
    from ragstone.settings.change import change_settings

    bench = Workbench(dataset, settings, collection=collection)
    bench.prepare(progress)
    runs = [await run_questions(bench, settings, chosen, name=settings.preset, progress=progress)]
    answered_already = all(question.given_answer is not None for question in dataset.questions)
    if baselines and dataset.has_targets and not answered_already:
        search_only = change_settings(settings, SEARCH_ALONE)
        methods: dict[str, RetrievalMethod] = {"BM25 alone": "keyword", "dense alone": "semantic"}
        for name, method in methods.items():
            alone = Options(method=method, again=chosen.again)
            runs.append(
                await run_questions(bench, search_only, alone, name=name, progress=progress)
            )
    return runs


def print_failures(runs: Sequence[Run]) -> None:
    """Print how many questions of each run failed, with the first error."""
    for run in runs:
        errors = [outcome.error for outcome in run.outcomes if outcome.error]
        if errors:
            stderr().print(
                f"[yellow]{escape(run.name)}: {len(errors)} questions failed:[/] "
                f"{escape(errors[0])}"
            )


def _print_evaluation(
    runs: list[Run], summaries: dict[str, Summary], report: Path | None, *, as_json: bool
) -> None:
    from ragstone.evaluate.report import write_report

    first = runs[0]
    written = write_report(runs, summaries, report)
    if not as_json:
        _print_summaries(runs, summaries)
        stdout().print(
            f"[dim]report {escape(str(written))} · results {escape(str(first.directory))}[/]"
        )
        return
    print_json(
        {
            "dataset": first.dataset.name,
            "questions": len(first.dataset.questions),
            "report": str(written),
            "runs": {
                run.name: {
                    "results": str(run.directory / "results.jsonl"),
                    **summaries[run.name].as_dict(),
                }
                for run in runs
            },
        }
    )


def _print_summaries(runs: list[Run], summaries: dict[str, Summary]) -> None:
    from ragstone.evaluate.report import figure_columns, figure_rows

    dataset = runs[0].dataset
    stdout().print(
        f"[bold]{escape(dataset.name)}[/] · {len(dataset.questions)} questions · "
        f"{len(dataset.passages) or 'your own'} documents"
    )
    print_table(figure_columns(runs), figure_rows(runs, summaries))
    stages = summaries[runs[0].name].stages
    if stages:
        stdout().print("[dim]stage, median and p95 in ms:[/]")
        print_table(["stage", "p50", "p95"], [(name, *times) for name, times in stages.items()])


def tune(
    dataset: DatasetArgument = None,
    from_documents: FromDocuments = False,
    collection: options.Collection = DEFAULT_COLLECTION,
    questions: TuningQuestions = 400,
    check: CheckQuestions = 1000,
    output: Output = Path("tuned"),
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
    from ragstone.evaluate.tune import tune_settings
    from ragstone.evaluate.workbench import Workbench

    options.create_folder(output, "--out")
    flags: dict[str, Any] = {"evaluate.directory": work}
    settings = options.load_settings(data, config, preset, set, **flags).settings
    making = QuestionOptions(count, seed, with_model) if from_documents else None
    with show_progress() as progress:
        loaded = load_questions(dataset, settings, collection, making, progress)
        bench = Workbench(loaded, settings, collection=collection)
        bench.prepare(progress)
        result = asyncio.run(
            tune_settings(bench, max_questions=questions, max_checks=check, progress=progress)
        )
    _write_tuning(result, output, as_json=json)


def _write_tuning(result: TuningResult, output: Path, *, as_json: bool) -> None:
    from ragstone.evaluate.report_tuning import (
        render_tuning_html,
        render_tuning_markdown,
        tuning_as_dict,
    )
    from ragstone.evaluate.tune import render_settings_file

    toml = render_settings_file(result, date=datetime.now(UTC).strftime("%Y-%m-%d"))
    figures = tuning_as_dict(result)
    for name, text in (
        ("ragstone.toml", toml),
        ("tune.html", render_tuning_html(result, toml)),
        ("tune.md", render_tuning_markdown(result, toml)),
        ("tune.json", json_module.dumps(figures, indent=2)),
    ):
        (output / name).write_text(text, "utf-8")
    if as_json:
        print_json(figures)
        return
    rows = [
        (
            sweep.path,
            f"{sweep.before:g}",
            f"{sweep.chosen:g}",
            f"{max(trial.quality for trial in sweep.trials):.4f}",
        )
        for sweep in result.sweeps
    ]
    print_table(["setting", "before", "taken", "best nDCG@10 tried"], rows)
    for path, value in result.values.items():
        stdout().print(f"[green]set[/] {path} = {value:g}")
    stdout().print(f"recommended threshold: RAG_MIN_SIMILARITY={result.threshold:g}")
    stdout().print(f"[bold]{escape(result.sentence)}[/]")
    stdout().print(
        f"[dim]wrote {escape(str(output))}/ragstone.toml, tune.html, tune.md, tune.json[/]"
    )
