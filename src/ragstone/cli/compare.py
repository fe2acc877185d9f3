"""`ragstone compare`: two presets, settings files or data directories on the same questions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.evaluate import (
    Again,
    Count,
    FailIf,
    Limit,
    Seed,
    WithModel,
    Work,
    questions_of,
    tell_failures,
)
from ragstone.cli.options import err, out, print_json, print_table, telling
from ragstone.types import DEFAULT_COLLECTION

if TYPE_CHECKING:
    from ragstone.evaluate.compare import Comparison, Side
    from ragstone.evaluate.datasets import Dataset
    from ragstone.evaluate.run import Run
    from ragstone.evaluate.workbench import Told


def compare(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A preset, a .toml file or a data directory.")
    ],
    after: Annotated[
        str, typer.Argument(metavar="B", help="The same; changes may follow: balanced,RAG_TOP_K=5.")
    ],
    dataset: Annotated[
        Path | None,
        typer.Argument(
            help="A BEIR folder or a file of questions; without it questions are made from the "
            "documents.", readable=False, metavar="DATASET",
        ),
    ] = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    answers: Annotated[
        bool | None,
        typer.Option("--answers/--no-answers", help="Write answers and compare them too."),
    ] = None,
    fail_if: FailIf = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")
    ] = None,
    changed: Annotated[
        int, typer.Option("--changed", min=0, help="How many changed questions to show.")
    ] = 6,
    count: Count = 200,
    seed: Seed = 0,
    with_model: WithModel = False,
    limit: Limit = None,
    again: Again = False,
    work: Work = None,
    json: options.Json = False,
    data: options.DataDir = None,
    set: options.Overrides = None,
) -> None:  # fmt: skip
    """Compare two systems on the same questions: differences, how sure they are, and why.

    Exit code 3 when a --fail-if holds for B, so that CI can stop a bad change.

    Examples:

      ragstone compare minimal balanced datasets/scifact

      ragstone compare main.toml branch.toml --fail-if 'ndcg@10 worse' --junit gate.xml

      ragstone compare balanced balanced,RAG_MMR_LAMBDA=0.7 --fail-if 'recall@10 worse by 0.01'
    """
    from ragstone.evaluate.compare import (
        check_comparison,
        compared,
        junit_xml,
        parse_condition,
        read_side,
    )

    conditions = [parse_condition(written) for written in fail_if or ()]
    flags: dict[str, Any] = options.flags_of(set) | {
        path: value
        for path, value in (("data.directory", data), ("evaluate.directory", work))
        if value is not None
    }
    if junit is not None:
        options.make_folder(junit.parent, "--junit")
    sides = [read_side(one, flags=flags) for one in (before, after)]
    with telling() as told:
        questions = questions_of(
            dataset, sides[0].settings, collection, from_documents=dataset is None, count=count,
            seed=seed, with_model=with_model, told=told,
        ).limited(limit)  # fmt: skip
        runs = asyncio.run(
            _both(questions, sides, collection, answers=answers, again=again, told=told)
        )
    tell_failures(runs)
    found = compared(*runs)
    failed = check_comparison(conditions, found)
    if junit is not None:
        junit.write_text(junit_xml(found, [one.written for one in conditions], failed), "utf-8")
    if json:
        print_json({**found.as_dict(), "failed": failed})
    else:
        print_comparison(found, most_changed=changed)
    for sentence in failed:
        err().print(f"[bold red]gate:[/] {escape(sentence)}")
    if failed:
        raise typer.Exit(3)


async def _both(
    dataset: Dataset,
    sides: list[Side],
    collection: str,
    *,
    answers: bool | None,
    again: bool,
    told: Told,
) -> tuple[Run, Run]:
    from ragstone.evaluate.run import Options, run_questions
    from ragstone.evaluate.workbench import Workbench

    wanted = dataset.has_answers if answers is None else answers
    runs = []
    for side in sides:
        bench = Workbench(dataset, side.settings, collection=collection)
        bench.prepare(told)
        runs.append(
            await run_questions(
                bench,
                side.settings,
                Options(answers=wanted, again=again),
                name=side.name,
                told=told,
            )
        )
    return runs[0], runs[1]


def print_comparison(found: Comparison, *, most_changed: int) -> None:
    from ragstone.evaluate.summary import shown

    out().print(
        f"[bold]{escape(found.before)} → {escape(found.after)}[/] · {escape(found.dataset)} · "
        f"{found.questions} questions"
    )
    rows = [
        (
            one.measure, shown(one.measure, one.before), shown(one.measure, one.after),
            f"{one.mean:+.4f}", f"{one.interval[0]:+.4f} to {one.interval[1]:+.4f}",
            f"{one.wins}/{one.losses}/{one.ties}", one.verdict,
        )
        for one in found.differences
    ]  # fmt: skip
    columns = ["measure", "A", "B", "difference", "95 %", "better/worse/equal", "verdict"]
    print_table(columns, rows)
    for question in found.changed[:most_changed]:
        arrow = "[green]▲[/]" if question.after > question.before else "[red]▼[/]"
        out().print(
            f"{arrow} {question.before:.3f} → {question.after:.3f}  {escape(question.text[:160])}"
        )
        for target, old, new in question.ways:
            out().print(f"    [dim]{escape(target)}  A: {escape(old)}  B: {escape(new)}[/]")
    out().print(f"[bold]{escape(found.sentence)}[/]")
