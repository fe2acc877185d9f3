"""`ragstone ask`: one question, one answer with its sources."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.ingest import ingest_with_progress, print_report
from ragstone.cli.options import err, out, print_answer, print_json, print_table, print_trace
from ragstone.errors import InputError
from ragstone.types import DEFAULT_COLLECTION, Grounding


def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotation marks.")],
    collection: options.Collection = DEFAULT_COLLECTION,
    method: Annotated[
        str | None, typer.Option(help="semantic, keyword or hybrid (default).")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="How many sources to read.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every stage with its time.")] = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Answer a question from the documents of a collection.

    Examples:

      ragstone ask "How long is the notice period?"

      ragstone ask "What changed in 2025?" --collection minutes --trace

      ragstone ask "Who signed the lease?" --json | jq .citations
    """
    loaded = options.load(
        data, config, preset, set, **{"retrieve.method": method, "refine.top_k": top_k}
    )
    engine = options.open_engine(loaded)
    try:
        options.require_collection(engine, collection)
        answer = engine.ask_sync(question, collection=collection)
        if not answer.sources and not engine.documents(collection, limit=1):
            err().print(
                f"[dim]hint:[/] The collection '{collection}' is empty; "
                "fill it with: ragstone ingest DOCUMENTS/"
            )
    finally:
        engine.close()
    if json:
        from ragstone.server.schemas import QueryReply

        print_json(QueryReply.of(answer, with_trace=trace).model_dump(mode="json"))
        return
    print_answer(answer)
    if trace:
        print_trace(answer)


COLLECTION = "demo"
QUESTIONS = (
    "How much notice do we have to give if we want to end the café contract?",
    "How long do the batteries keep the telescope running in a power cut?",
    "What does a glass of wine cost in the café?",
)


def demo(
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Ingest the sample documents of a small observatory and ask them three questions.

    Example:  ragstone demo
    """
    engine = options.open_engine(options.load(data, config, preset, set))
    try:
        samples = Path(str(resources.files("ragstone.samples") / "documents"))
        out().print(f"[bold]Reading the sample documents[/] [dim]{samples}[/]")
        print_report(ingest_with_progress(engine, [samples], COLLECTION))
        for question in QUESTIONS:
            out().print(f"\n[bold]? {question}[/]\n")
            print_answer(engine.ask_sync(question, collection=COLLECTION))
    finally:
        engine.close()
    # As it was called, so that the line can be copied from where the person stands.
    me = escape(sys.argv[0] if "/" in sys.argv[0] else "ragstone")
    there = f"-C {COLLECTION}" + (f" -d {escape(str(data))}" if data else "")
    out().print(
        f"\nAsk your own:   [bold]{me} ask 'When is the observatory open?' {there}[/]"
        f"\nYour documents: [bold]{me} ingest DOCUMENTS/[/]"
    )


def check(
    answer: Annotated[str, typer.Argument(help="The answer to check, or - to read it from stdin.")],
    against: Annotated[
        list[Path], typer.Option("--against", "-a", help="Files or folders; may be repeated.")
    ],
    json: options.Json = False,
) -> None:
    """Check every sentence of an answer against files, without a model server.

    Examples:

      ragstone check "The lease ends in 2039." --against lease.pdf

      ragstone check - --against manuals/ --json < answer.txt
    """
    text = sys.stdin.read() if answer == "-" else answer
    found, names = asyncio.run(_checked(text, against))
    if json:
        from ragstone.server.routes.query import CheckReply

        print_json({**CheckReply.of(found).model_dump(mode="json"), "facts": names})
        return
    rows = [
        (claim.verdict, f"{claim.score:.2f}", claim.text, ", ".join(names[n - 1] for n in
         claim.citations) or " ".join(claim.reasons))
        for claim in found.claims
    ]  # fmt: skip
    print_table(["verdict", "score", "claim", "source or reason"], rows)
    out().print(f"[dim]support {found.support_score:.2f}[/]")


async def _checked(answer: str, paths: list[Path]) -> tuple[Grounding, list[str]]:
    """Read the files as ingestion reads them, into a place that is gone afterwards."""
    from ragstone.engine import Engine
    from ragstone.settings import load_settings

    with tempfile.TemporaryDirectory() as directory:
        settings = load_settings(flags={"data.directory": Path(directory)}).settings
        async with Engine(settings) as engine:
            report = await engine.ingest(paths)
            if failed := report.of("failed"):
                raise InputError(f"{failed[0].name}: {failed[0].error}", hint=failed[0].hint)
            documents = [engine.catalog.document(one.id) for one in engine.documents()]
            found = await engine.check(answer, [one.text for one in documents])
            return found, [one.name for one in documents]
