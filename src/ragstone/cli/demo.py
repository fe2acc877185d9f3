"""`ragstone demo`: the sample documents and three questions, one of which they do not answer."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.ingest import ingest_with_progress, print_report
from ragstone.cli.terminal import out, print_answer

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
