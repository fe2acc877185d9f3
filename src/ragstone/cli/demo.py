"""`ragstone demo`: the sample documents and three questions, one of which they do not answer."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ragstone.cli import options
from ragstone.cli.ingest import ingest_with_progress, print_report
from ragstone.cli.terminal import out, print_answer

COLLECTION = "demo"
QUESTIONS = (
    "How much notice do we have to give if we want to end the café contract?",
    "How heavy is the main mirror of the big telescope?",
    "How much did the Halden reflector cost when it was built?",
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
    out().print(
        f"\nAsk your own:  [bold]ragstone ask 'When is the observatory open?' -C {COLLECTION}[/]"
        "\nYour documents: [bold]ragstone ingest DOCUMENTS/[/]"
    )
