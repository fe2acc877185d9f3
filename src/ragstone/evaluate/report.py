"""Write the reports of an evaluation and of tuning, as one self-contained HTML file or Markdown.

Runs and their summaries in → a file out, with plots and the traces of the worst questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from ragstone import __version__
from ragstone.errors import InputError
from ragstone.evaluate.compare import describe_steps
from ragstone.evaluate.datasets import Question
from ragstone.evaluate.plots import Axis, Series, compute_histogram, draw_bars, draw_plot
from ragstone.evaluate.run import Outcome, Run
from ragstone.evaluate.summary import (
    ByQuestion,
    Summary,
    ThresholdPoint,
    choose_main_measure,
    format_measure,
    measure_run,
    measure_thresholds,
)
from ragstone.files import replace_file

_MAX_WORST = 15
# The lowest of these is the value of a question: for its hits, its answer, its decision to answer.
_WORST_MEASURES = ("ndcg@10", "containment", "decided_right")


def render_page(title: str, body: str) -> str:
    """Render an HTML page without scripts, images or anything from another file."""
    text = resources.files("ragstone.evaluate").joinpath("page.html").read_text("utf-8")
    return Template(text).substitute(title=escape(title), body=body)


def write_report(runs: Sequence[Run], summaries: Mapping[str, Summary], path: Path | None) -> Path:
    """Write both forms beside the results, and one of them to `path`. Return its path."""
    html, markdown = render_html_report(runs, summaries), render_markdown_report(runs, summaries)
    folder = runs[0].directory
    replace_file(folder / "report.html", html.encode())
    replace_file(folder / "report.md", markdown.encode())
    if path is None:
        return folder / "report.html"
    text = markdown if path.suffix == ".md" else html
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(
            f"The report '{path}' cannot be written: {error.strerror}.",
            hint="Choose another file for --report, e.g. report.html or report.md.",
        ) from error
    return path


def render_html_report(runs: Sequence[Run], summaries: Mapping[str, Summary]) -> str:
    first = runs[0]
    title = f"{first.dataset.name}: {first.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="about">{escape(_describe_run(first))}</p>',
        "<h2>Figures</h2>",
        render_html_table(figure_columns(runs), figure_rows(runs, summaries)),
        '<h2>Plots</h2><div class="plots">',
        *_draw_plots(first, summaries[first.name]),
        "</div>",
        *_render_worst(first),
    ]
    return render_page(title, "\n".join(part for part in body if part))


def render_markdown_report(runs: Sequence[Run], summaries: Mapping[str, Summary]) -> str:
    first = runs[0]
    lines = [f"# {first.dataset.name}: {first.name}", "", _describe_run(first), ""]
    lines += render_markdown_table(figure_columns(runs), figure_rows(runs, summaries))
    stages = summaries[first.name].stages
    if stages:
        rows = [(name, f"{low:g}", f"{high:g}") for name, (low, high) in stages.items()]
        lines += ["", *render_markdown_table(["stage", "median ms", "p95 ms"], rows)]
    lines += ["", "## Worst questions", ""]
    for question, outcome, value in find_worst_questions(first):
        lines.append(f"- **{value:.3f}** {question.text}")
        lines += [
            f"  - `{target}`: {describe_steps(steps)}"
            for target, steps in outcome.target_steps.items()
        ]
        if outcome.answer is not None:
            expected = ", ".join(question.answers) or "–"
            lines.append(f"  - answer: {' '.join(outcome.answer.split())} (expected: {expected})")
    return "\n".join(lines) + "\n"


def _describe_run(run: Run) -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    passages = run.dataset.passages
    documents = f"{len(passages)} documents" if passages else "the collection's own documents"
    return f"{len(run.outcomes)} questions, {documents} · Ragstone {__version__} · {when}"


def figure_columns(runs: Sequence[Run]) -> list[str]:
    return ["measure", runs[0].name, "95 %", "questions", *(run.name for run in runs[1:])]


def figure_rows(runs: Sequence[Run], summaries: Mapping[str, Summary]) -> list[list[str]]:
    rows = []
    for one in summaries[runs[0].name].figures:
        others = [summaries[run.name].figure(one.name) for run in runs[1:]]
        low, high = one.interval
        bounds = f"{format_measure(one.name, low)} to {format_measure(one.name, high)}"
        rows.append(
            [
                one.name,
                format_measure(one.name, one.mean),
                bounds if one.has_interval else "–",
                str(one.count),
                *(format_measure(one.name, other.mean) if other else "–" for other in others),
            ]
        )
    return rows


def render_html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def render_row(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at else ''}>{escape(str(cell))}</{tag}>"
            for at, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{render_row('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{render_row("th", columns)}</tr>{body}</table></div>'


def render_markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]


def _draw_plots(run: Run, summary: Summary) -> list[str]:
    return [
        _draw_similarities(run),
        _draw_run_thresholds(run),
        draw_plot(
            "Risk and coverage",
            [Series("wrong among those answered", summary.risk_coverage, colour=2)],
            Axis("share of questions answered", 0, 1),
            Axis("share wrong", 0, None),
        ),
        draw_plot(
            "Reliability of the confidence",
            [
                Series("as it should be", [(0, 0), (1, 1)], colour=3, dashed=True),
                Series("measured", [(sure, right) for sure, right, _ in summary.reliability]),
                Series("", [(s, r) for s, r, _ in summary.reliability], kind="dots"),
            ],
            Axis("confidence", 0, 1),
            Axis("share right", 0, 1),
        )
        if summary.reliability
        else "",
        draw_bars(
            "Time of each stage",
            [(name, low, high) for name, (low, high) in summary.stages.items()],
            "median / p95, ms",
        ),
        _draw_latency(run),
    ]


def _draw_similarities(run: Run) -> str:
    targets = {one.id: {target.label for target in one.targets} for one in run.dataset.questions}
    found: dict[bool, list[float]] = {True: [], False: []}
    for outcome in run.outcomes:
        for label, _, similar in outcome.hits:
            if similar is not None and targets[outcome.id]:
                found[label in targets[outcome.id]].append(similar)
    if not found[True]:
        return ""
    return draw_plot(
        "Similarity of hits",
        [
            Series(
                "not relevant", compute_histogram(found[False], low=0, high=1, bins=40), "bars", 2
            ),
            Series("relevant", compute_histogram(found[True], low=0, high=1, bins=40), "bars", 1),
        ],
        Axis("similarity to the question", 0, 1),
        Axis("share of the hits", 0, None),
    )


def _draw_run_thresholds(run: Run) -> str:
    in_use = run.settings.refine.min_similarity
    # The threshold in use dropped hits below it, so the curve is known only above it.
    curve = [one for one in measure_thresholds(run) if one.threshold >= in_use]
    if not curve:
        return ""
    return draw_thresholds("What a similarity threshold keeps", curve, in_use, "in use")


def draw_thresholds(title: str, curve: Sequence[ThresholdPoint], mark: float, label: str) -> str:
    """Draw the shares of relevant and other hits that each threshold keeps."""
    series = [
        Series("relevant hits", [(one.threshold, one.relevant_kept) for one in curve]),
        Series("other hits", [(one.threshold, one.others_kept) for one in curve], colour=2),
    ]
    axes = Axis("RAG_MIN_SIMILARITY", 0, None), Axis("share of hits kept", 0, 1)
    return draw_plot(title, series, *axes, mark=mark, mark_label=label)


def _draw_latency(run: Run) -> str:
    times = sorted(one.latency_ms for one in run.outcomes if not one.error and one.latency_ms)
    points = [(value, (at + 1) / len(times)) for at, value in enumerate(times)]
    return draw_plot(
        "Latency of a question",
        [Series("share answered within", points, colour=4)],
        Axis("milliseconds", 0, None),
        Axis("share of questions", 0, 1),
    )


def find_worst_questions(run: Run) -> list[tuple[Question, Outcome, float]]:
    """Return the questions with the lowest value of any of the main measures, errors first."""
    found = measure_run(run)
    values: dict[str, list[float]] = {}
    for name in _choose_worst_measures(found):
        for key, value in found[name].items():
            values.setdefault(key, []).append(value)
    outcomes = run.by_id
    measured = [one for one in run.dataset.questions if one.id in values or outcomes[one.id].error]
    low = {one.id: min(values.get(one.id, [0.0])) for one in measured}

    def rank(one: Question) -> tuple[bool, float, float, str]:
        # If many share the lowest value, as answers of whole sentences do, the other values decide.
        return not outcomes[one.id].error, low[one.id], sum(values.get(one.id, [])), one.id

    measured.sort(key=rank)
    worst = [(one, outcomes[one.id], low[one.id]) for one in measured if low[one.id] < 1.0]
    return worst[:_MAX_WORST]


def _choose_worst_measures(found: ByQuestion) -> list[str]:
    names = [name for name in _WORST_MEASURES if name in found] or [choose_main_measure(found)]
    return [name for name in names if name]


def _render_worst(run: Run) -> list[str]:
    found = find_worst_questions(run)
    if not found:
        return ["<h2>Worst questions</h2><p>None: every question has the best possible value.</p>"]
    rows = "".join(
        f'<tr><td><a href="#trace-{number}">{escape(question.text)}</a></td>'
        f"<td class=n>{value:.3f}</td></tr>"
        for number, (question, _, value) in enumerate(found, start=1)
    )
    measured = ", ".join(_choose_worst_measures(measure_run(run)))
    parts = [
        f"<h2>Worst questions</h2><p>By the lowest of {escape(measured)}.</p>",
        '<div class="wide"><table><tr><th>question</th><th class=n>lowest</th></tr>'
        f"{rows}</table></div><h2>Their traces</h2>",
    ]
    parts += [_render_trace(number, *entry) for number, entry in enumerate(found, start=1)]
    return parts


def _render_trace(number: int, question: Question, outcome: Outcome, value: float) -> str:
    parts = [f"<p>{escape(outcome.error)}</p>"] if outcome.error else []
    if outcome.answer is not None:
        expected = ", ".join(question.answers) or "not known"
        if question.answerable is False:
            expected = "none: the documents have no answer"
        parts.append(
            f"<p>Answer ({escape(outcome.status)}, confidence {outcome.confidence:.2f}): "
            f"{escape(outcome.answer)}</p><p>Expected: {escape(expected)}</p>"
        )
    for target, steps in outcome.target_steps.items():
        rows = [
            [
                str(step["stage"]),
                str(step["outcome"]),
                str(step["rank"] or "–"),
                _format_score(step["score"]),
                str(step["reason"]),
            ]
            for step in steps
        ]
        parts.append(f"<p>Stages of <b>{escape(target)}</b>:</p>")
        parts.append(
            render_html_table(["stage", "outcome", "rank", "score", "reason"], rows)
            if rows
            else "<p>No stage found it.</p>"
        )
    first = [
        [label, _format_score(score), _format_score(similarity)]
        for label, score, similarity in outcome.hits[:5]
    ]
    parts.append(
        "<p>First hits:</p>" + render_html_table(["document", "score", "similarity"], first)
    )
    times = ", ".join(f"{name} {ms:.1f} ms" for name, ms in outcome.stages.items())
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in outcome.notes)
    return (
        f'<details id="trace-{number}"{" open" if number == 1 else ""}>'
        f"<summary>{value:.3f} · {escape(question.text)}</summary>{''.join(parts)}{notes}"
        f"<p><small>{escape(times)} · question {escape(question.id)}</small></p></details>"
    )


def _format_score(score: float | None) -> str:
    return "–" if score is None else f"{score:.4f}"
