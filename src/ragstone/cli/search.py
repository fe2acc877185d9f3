"""Run `ragstone search`: list the evidence, and explain why a chunk is or is not among it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from ragstone.catalog import schema
from ragstone.cli import options
from ragstone.cli.answers import flatten_quotation
from ragstone.cli.options import print_json, print_table, stdout
from ragstone.types import DEFAULT_COLLECTION, Hit

if TYPE_CHECKING:
    from ragstone.engine import Engine
    from ragstone.query.explain import Explanation
    from ragstone.trace import QueryRun


Question = Annotated[
    str, typer.Argument(metavar="QUESTION", help="Question or search words, in quotation marks.")
]
TopK = Annotated[int | None, typer.Option(min=1, help="Number of hits to show.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="CONDITION",
        help="FIELD=VALUE, FIELD!=VALUE or FIELD>=VALUE; repeatable, all must hold.",
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show the score of every hit in each stage.")
]
WhyNot = Annotated[
    str | None,
    typer.Option("--why-not", metavar="CHUNK", help="Show what each stage did with this chunk."),
]


def search(
    question: Question,
    collection: options.Collection = DEFAULT_COLLECTION,
    method: options.Method = None,
    top_k: TopK = None,
    filter: Filters = None,
    explain: Explain = False,
    why_not: WhyNot = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Find the passages that answer a question, without writing an answer.

    Examples:

      ragstone search "notice period" --filter tags=contract --filter 'year>=2020'

      ragstone search "Who signed the lease?" --explain

      ragstone search "Who signed the lease?" --why-not 3f2a…:4
    """
    from ragstone.filters import combine_filters, parse_condition

    flags = {"retrieve.method": method, "refine.top_k": top_k}
    limits = combine_filters(*(parse_condition(text) for text in filter or ()))
    with options.open_engine(
        options.load_settings(data, config, preset, set, **flags), existing=data
    ) as engine:
        options.require_collection(engine, collection)
        hits, run = asyncio.run(
            engine.search_traced(question, collection=collection, filters=limits)
        )
        if why_not is not None:
            why_not = complete_chunk_id(engine, why_not)
            explanation = asyncio.run(
                engine.explain(question, why_not, collection=collection, filters=limits)
            )
            print_explanation(explanation, as_json=json)
            return
    if json:
        print_json([_hit_as_dict(hit) for hit in hits])
        return
    if not hits:
        stdout().print(options.say("No passage found."))
    if explain:
        print_table(_COLUMNS, [_score_row(rank, hit) for rank, hit in enumerate(hits, start=1)])
        _print_stages(run)
    else:
        for rank, hit in enumerate(hits, start=1):
            _print_hit(rank, hit)


def complete_chunk_id(engine: Engine, chunk_id: str) -> str:
    """Complete the id of the document in DOCUMENT:INDEX."""
    document_id, colon, index = chunk_id.rpartition(":")
    if not colon:
        return chunk_id  # the explanation says what a chunk's id looks like
    return options.complete_id(engine.catalog, schema.documents.c.id, document_id) + colon + index


_COLUMNS = ["#", "score", "semantic", "keyword", "fused", "filter", "rerank", "combined", "MMR",
            "chunk", "document"]  # fmt: skip


def _score_row(rank: int, hit: Hit) -> list[str]:
    scores = hit.scores
    return [
        str(rank),
        f"{hit.score:.3f}",
        _format_rank(scores.dense_rank, scores.similarity),
        _format_rank(scores.keyword_rank, scores.keyword_score),
        _format_number(scores.fused),
        scores.filter or "–",
        _format_number(scores.rerank),
        _format_number(scores.combined),
        str(scores.mmr_rank or "–"),
        hit.chunk.id,
        _format_location(hit),
    ]


def _format_rank(rank: int | None, score: float | None) -> str:
    """Format a rank and its score: `3 (0.71)`; `– (0.31)` for a score without a rank."""
    return f"{rank or '–'} ({_format_number(score)})"


def _format_number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _format_location(hit: Hit) -> str:
    page = f", page {hit.chunk.page}" if hit.chunk.page else ""
    return f"{hit.chunk.document_name}{page}"


def _print_hit(rank: int, hit: Hit) -> None:
    console = stdout()
    console.print(
        f"[bold]{rank}[/] [cyan]{hit.score:.3f}[/] [bold]{escape(_format_location(hit))}[/] "
        f"[dim]{escape(hit.chunk.id)}[/]"
    )
    text = flatten_quotation(hit.chunk.text)
    shown = Text(text[:240] + ("…" if len(text) > 240 else ""), style="dim")
    console.print(Padding(shown, (0, 0, 0, 4), expand=False))


def _print_stages(run: QueryRun) -> None:
    rows = [
        (
            span.stage,
            f"{span.duration_ms:.1f} ms",
            ", ".join(
                f"{name} {value}"
                for name, value in span.counts.items()
                if not isinstance(value, list)
            ),
            "; ".join(span.notes),
        )
        for span in run.trace.spans
    ]
    stdout().print()
    print_table(["stage", "time", "figures", "notes"], rows)


def print_explanation(explanation: Explanation, *, as_json: bool) -> None:
    chunk = explanation.chunk
    if as_json:
        steps = [dataclasses.asdict(step) for step in explanation.steps]
        print_json({"chunk_id": chunk.id, "verdict": explanation.verdict, "steps": steps})
        return
    stdout().print(f"[bold]{escape(chunk.id)}[/] of {escape(chunk.document_name)}")
    rows = [
        (
            step.stage,
            step.outcome,
            step.rank or "–",
            _format_number(step.score),
            step.reason or ", ".join(f"{name} {value}" for name, value in step.said.items()),
        )
        for step in explanation.steps
    ]
    print_table(["stage", "outcome", "rank", "score", "details"], rows)
    stdout().print(f"[bold]{escape(explanation.verdict)}[/]")


def _hit_as_dict(hit: Hit) -> dict[str, Any]:
    chunk = hit.chunk
    return {
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "document_name": chunk.document_name,
        "page": chunk.page,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "score": hit.score,
        "method": hit.method,
        "scores": dataclasses.asdict(hit.scores),
    }
