"""Run `ragstone ask`, `demo` and `check`: answers with their sources, and checks of answers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from importlib import resources
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.answers import print_answer, print_trace
from ragstone.cli.ingest import ingest_with_progress, print_report
from ragstone.cli.options import print_json, print_table, stderr, stdout
from ragstone.errors import InputError
from ragstone.types import DEFAULT_COLLECTION, Answer, Grounding

if TYPE_CHECKING:
    from ragstone.engine import Engine
    from ragstone.reports import IngestedFile


def ask(
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="The question, or - to read it from stdin."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Answer each line of this file; print JSON lines."),
    ] = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    method: options.Method = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Number of sources to read.")] = None,
    rag: options.Rag = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every stage with its time.")] = False,
    strict: options.Strict = False,
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

      echo "Who signed the lease?" | ragstone ask - --json | jq .citations

      ragstone ask --file questions.txt > answers.jsonl
    """
    if (question is None) == (file is None):
        raise typer.BadParameter("Give one question, or a file with questions (--file).")
    text = _read_argument(question or "")
    flags = {
        "retrieve.method": method,
        "refine.top_k": top_k,
        "retrieve.enabled": rag,
        "provider.strict": strict or None,
    }
    with options.open_engine(
        options.load_settings(data, config, preset, set, **flags),
        existing=None if rag is False else data,
    ) as engine:
        options.require_collection(engine, collection)
        if file is not None:
            asyncio.run(_ask_many(engine, _read_questions(file), collection))
            return
        answer = engine.ask_sync(text, collection=collection, is_chat=True)
        shown = options.warn_about_provider(engine, answer)
        _hint_at_empty_collection(engine, collection, answer)
    if json:
        from ragstone.server.schemas import QueryReply

        print_json(QueryReply.of(answer, with_trace=trace).model_dump(mode="json"))
        return
    print_answer(shown)
    if trace:
        print_trace(answer)


def _read_argument(text: str) -> str:
    """Return the text of an argument, which is on standard input if it is `-`."""
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "The text on standard input is not in UTF-8.", hint="Convert it, e.g. with iconv."
        ) from error


def _hint_at_empty_collection(engine: Engine, collection: str, answer: Answer) -> None:
    if answer.sources or answer.route == "plain" or engine.documents(collection, limit=1):
        return
    stderr().print(
        f"[dim]hint:[/] The collection '{collection}' is empty; "
        "fill it with: ragstone ingest DOCUMENTS/"
    )


def _read_questions(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
        raise InputError(
            f"The file '{file}' cannot be read: {reason}.",
            hint="Use a text file in UTF-8 with one question per line.",
        ) from error
    return [line.strip() for line in lines if line.strip()]


async def _ask_many(engine: Engine, questions: list[str], collection: str) -> None:
    """Print one JSON object for each question, in their order."""
    from ragstone.server.schemas import QueryReply

    async for item in engine.ask_many(questions, collection=collection, is_chat=True):
        line: dict[str, Any] = {"index": item.index, "query": item.question}
        if item.answer is not None:
            line["reply"] = QueryReply.of(item.answer).model_dump(mode="json")
        if item.error is not None:
            line["error"] = {"detail": item.error.message, "hint": item.error.hint}
        sys.stdout.write(dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    await engine.close_connections()


_DEMO_COLLECTION = "demo"
_DEMO_QUESTIONS = (
    "When does the lease end?",
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
    with options.open_engine(options.load_settings(data, config, preset, set)) as engine:
        samples = Path(str(resources.files("ragstone.samples") / "documents"))
        stdout().print(f"[bold]Reading the sample documents[/] [dim]{samples}[/]")
        print_report(ingest_with_progress(engine, [samples], _DEMO_COLLECTION))
        for question in _DEMO_QUESTIONS:
            stdout().print(f"\n[bold]? {question}[/]\n")
            print_answer(engine.ask_sync(question, collection=_DEMO_COLLECTION))
    # Show the command as it was called, so that the lines can be copied into the same shell.
    program = escape(sys.argv[0] if "/" in sys.argv[0] else "ragstone")
    place = f"-C {_DEMO_COLLECTION}" + (f" -d {escape(str(data))}" if data else "")
    stdout().print(
        f"\nAsk your own:   [bold]{program} ask 'When is the observatory open?' {place}[/]"
        f"\nYour documents: [bold]{program} ingest DOCUMENTS/[/]"
    )


class FailOn(StrEnum):
    """Say which verdicts make `ragstone check` fail."""

    CONTRADICTED = "contradicted"
    UNSUPPORTED = "unsupported"


def check(
    answer: Annotated[
        str,
        typer.Argument(metavar="ANSWER", help="The answer to check, or - to read it from stdin."),
    ],
    against: Annotated[
        list[Path],
        typer.Option("--against", "-a", help="File or folder to check against; may be repeated."),
    ],
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            help="Exit with code 1. contradicted: if a claim is contradicted; unsupported: if any "
            "claim is not supported by the source it names, or nothing is claimed."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check every sentence of an answer against files, without a model server.

    Examples:

      ragstone check "The lease ends in 2039." --against lease.pdf

      ragstone check - --against manuals/ --json < answer.txt

      ragstone check - --against manuals/ --fail-on unsupported < answer.txt || echo "Not sent."
    """
    from ragstone.query.check.review import is_all_supported

    text = _read_argument(answer)
    if not text.strip():
        raise typer.BadParameter("The answer is empty. Give its text, or - to read it from stdin.")
    grounding, names, left_out = asyncio.run(_check_against(text, against))
    _print_grounding(grounding, names, left_out, json=json)
    is_contradicted = any(claim.verdict == "contradicted" for claim in grounding.claims)
    if fail_on is FailOn.CONTRADICTED and is_contradicted:
        raise typer.Exit(1)
    if fail_on is FailOn.UNSUPPORTED and not is_all_supported(grounding):
        raise typer.Exit(1)


def _print_grounding(
    grounding: Grounding, names: Sequence[str], left_out: Sequence[IngestedFile], *, json: bool
) -> None:
    if json:
        from ragstone.server.schemas import CheckReply

        unread = [{"name": file.name, "error": file.error} for file in left_out]
        reply = CheckReply.of(grounding).model_dump(mode="json")
        print_json({**reply, "facts": names, "left_out": unread})
        return
    for file in left_out:
        stderr().print(
            f"[bold yellow]warning:[/] {escape(f'{file.name} was left out: {file.error}')}"
        )
    rows = []
    for claim in grounding.claims:
        sources = ", ".join(names[number - 1] for number in claim.citations)
        reason = sources or " ".join(claim.reasons)
        rows.append((claim.verdict, f"{claim.score:.2f}", claim.text, reason))
    if rows:
        print_table(["verdict", "score", "claim", "source or reason"], rows)
    else:
        stdout().print("The answer holds no sentence that states something.")
    for note in grounding.notes:
        stdout().print(escape(note))
    stdout().print(f"[dim]support {grounding.support_score:.2f}[/]")


async def _check_against(
    answer: str, paths: list[Path]
) -> tuple[Grounding, list[str], Sequence[IngestedFile]]:
    """Ingest the files into a temporary directory and check the answer against their texts.

    Returns the names of the files, too, and the files that could not be read.
    """
    from ragstone.engine import Engine
    from ragstone.ingest.discover import find_files
    from ragstone.settings import load_settings

    with tempfile.TemporaryDirectory() as directory:
        own = {
            "data.directory": Path(directory),
            "data.database_url": "",
            "index.kind": "embedded",
            "ingest.source": "",
        }
        async with Engine(load_settings(flags=own).settings) as engine:
            report = await engine.ingest(paths)
            failed = report.of("failed")
            # A marker [Source 2] names the second file that is given, whenever it was read.
            sources = [
                source
                for file in find_files(paths).files
                for source in (
                    file.source,
                    *sorted(engine.records.sources_inside(report.collection, file.source)),
                )
            ]
            stored = [engine.catalog.find_by_source(report.collection, one) for one in sources]
            ids = dict.fromkeys(one.id for one in stored if one and one.status == "indexed")
            if failed and not ids:
                raise InputError(f"{failed[0].name}: {failed[0].error}", hint=failed[0].hint)
            documents = [engine.catalog.document(one) for one in ids]
            grounding = await engine.check(answer, [one.text for one in documents])
            return grounding, [one.name for one in documents], failed
