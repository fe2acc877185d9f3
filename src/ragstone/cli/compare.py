"""Run `ragstone compare`: ask two systems the same questions and compare the results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.evaluate import (
    Again,
    Answers,
    Count,
    FailIf,
    Limit,
    QuestionOptions,
    Seed,
    WithModel,
    Work,
    exit_if_failed,
    load_questions,
    print_failures,
)
from ragstone.cli.options import print_json, print_table, show_progress, stdout
from ragstone.types import DEFAULT_COLLECTION

if TYPE_CHECKING:
    from ragstone.evaluate.compare import Comparison, Side
    from ragstone.evaluate.datasets import Dataset
    from ragstone.evaluate.run import Options, Run
    from ragstone.evaluate.workbench import Progress

Before = Annotated[
    str, typer.Argument(metavar="A", help="A preset, a .toml file or a data directory.")
]
After = Annotated[
    str, typer.Argument(metavar="B", help="The same; changes may follow: balanced,RAG_TOP_K=5.")
]
DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        help="BEIR folder or file of questions (default: make questions from the documents).",
        readable=False,
        metavar="DATASET",
    ),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")]
Changed = Annotated[
    int, typer.Option("--changed", min=0, help="Number of changed questions to show.")
]


def compare(
    before: Before,
    after: After,
    dataset: DatasetArgument = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    answers: Answers = None,
    fail_if: FailIf = None,
    junit: Junit = None,
    changed: Changed = 6,
    count: Count = 200,
    seed: Seed = 0,
    with_model: WithModel = False,
    limit: Limit = None,
    again: Again = False,
    work: Work = None,
    json: options.Json = False,
    data: options.DataDir = None,
    set: options.Overrides = None,
) -> None:
    """Compare two systems on the same questions: differences, their intervals, and the reasons.

    Exits with code 3 if a --fail-if holds for B, so that CI can stop a bad change.

    Examples:

      ragstone compare minimal balanced datasets/scifact

      ragstone compare main.toml branch.toml --fail-if 'ndcg@10 worse' --junit gate.xml

      ragstone compare balanced balanced,RAG_MMR_LAMBDA=0.7 --fail-if 'recall@10 worse by 0.01'
    """
    from ragstone.evaluate import compare as comparing
    from ragstone.evaluate.run import Options

    conditions = [comparing.parse_condition(text) for text in fail_if or ()]
    if junit is not None:
        options.create_folder(junit.parent, "--junit")
    named = {"data.directory": data, "evaluate.directory": work}
    flags: dict[str, Any] = options.parse_overrides(set)
    flags |= {path: value for path, value in named.items() if value is not None}
    sides = [comparing.read_side(text, flags=flags) for text in (before, after)]
    making = QuestionOptions(count, seed, with_model) if dataset is None else None
    with show_progress() as progress:
        questions = load_questions(dataset, sides[0].settings, collection, making, progress)
        questions = questions.take_sample(limit)
        chosen = Options(answers=questions.has_answers if answers is None else answers, again=again)
        runs = asyncio.run(_run_both(questions, sides, collection, chosen, progress))
    print_failures(runs)
    comparison = comparing.compare_runs(*runs)
    failures = comparing.check_comparison(conditions, comparison)
    if junit is not None:
        texts = [condition.text for condition in conditions]
        junit.write_text(comparing.render_junit(comparison, texts, failures), "utf-8")
    if json:
        print_json({**comparison.as_dict(), "failed": failures})
    else:
        _print_comparison(comparison, max_changed=changed)
    exit_if_failed(failures)


async def _run_both(
    dataset: Dataset, sides: list[Side], collection: str, chosen: Options, progress: Progress
) -> list[Run]:
    from ragstone.evaluate.run import run_questions
    from ragstone.evaluate.workbench import Workbench

    runs = []
    for side in sides:
        bench = Workbench(dataset, side.settings, collection=collection)
        bench.prepare(progress)
        runs.append(
            await run_questions(bench, side.settings, chosen, name=side.name, progress=progress)
        )
    return runs


def _print_comparison(comparison: Comparison, *, max_changed: int) -> None:
    from ragstone.evaluate.summary import format_measure

    stdout().print(
        f"[bold]{escape(comparison.before)} → {escape(comparison.after)}[/] · "
        f"{escape(comparison.dataset)} · {comparison.questions} questions"
    )
    rows = [
        (
            one.measure,
            format_measure(one.measure, one.before),
            format_measure(one.measure, one.after),
            f"{one.mean:+.4f}",
            f"{one.interval[0]:+.4f} to {one.interval[1]:+.4f}",
            f"{one.wins}/{one.losses}/{one.ties}",
            one.verdict,
        )
        for one in comparison.differences
    ]
    columns = ["measure", "A", "B", "difference", "95 %", "better/worse/equal", "verdict"]
    print_table(columns, rows)
    for question in comparison.changed[:max_changed]:
        arrow = "[green]▲[/]" if question.after > question.before else "[red]▼[/]"
        stdout().print(
            f"{arrow} {question.before:.3f} → {question.after:.3f}  {escape(question.text[:160])}"
        )
        for target, old, new in question.steps:
            stdout().print(f"    [dim]{escape(target)}  A: {escape(old)}  B: {escape(new)}[/]")
    stdout().print(f"[bold]{escape(comparison.sentence)}[/]")
