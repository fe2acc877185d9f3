"""`ragstone chat`: a conversation with the documents, remembered as a session."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import err, fail, out, print_answer, print_sources
from ragstone.errors import InputError, ProviderError
from ragstone.events import Finished, Token
from ragstone.types import DEFAULT_COLLECTION, Answer

if TYPE_CHECKING:
    from ragstone.engine import Engine

_END = frozenset({"/quit", "/exit", "/q"})
_HELP = "[dim]/new begins a new session · /quit or Ctrl-D ends[/]"


def chat(
    collection: options.Collection = DEFAULT_COLLECTION,
    session: Annotated[
        str | None, typer.Option("--session", help="Continue this session, or begin it.")
    ] = None,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Talk with the documents. Follow-ups ("and in 2023?") are understood, answers are streamed.

    In a pipe every line is a question.

    Examples:

      ragstone chat --collection contracts

      ragstone chat --session holiday-plans

      printf 'What is the rent?\\nand the deposit?\\n' | ragstone chat
    """
    engine = options.open_engine(options.load(data, config, preset, set))
    session_id = session or uuid.uuid4().hex
    try:
        options.require_collection(engine, collection)
        if sys.stdin.isatty():
            err().print(f"[dim]session {session_id}[/] · {_HELP}")
        for line in _lines():
            if line == "/new":
                session_id = uuid.uuid4().hex
                err().print(f"[dim]session {session_id}[/]")
            elif line:
                _turn(engine, line, collection, session_id)
    finally:
        engine.close()


def _lines() -> Iterator[str]:
    """What is typed or piped in, up to /quit or the end."""
    while True:
        if sys.stdin.isatty():
            err().print("[bold cyan]›[/] ", end="")
        line = sys.stdin.readline()
        if not line or line.strip().lower() in _END:
            return
        yield line.strip()


def _turn(engine: Engine, question: str, collection: str, session_id: str) -> None:
    """One question; what is wrong with it is said, and the conversation goes on."""
    try:
        answer, shown = asyncio.run(_answered(engine, question, collection, session_id))
    except (InputError, ProviderError) as error:
        fail(error)
        return
    if not shown:
        print_answer(answer)
    else:
        if shown.strip() != answer.text.strip():
            out().print("[dim]checked:[/]")
            out().print(answer.text, markup=False)
        print_sources(answer)
    out().print()
    sys.stdout.flush()


async def _answered(
    engine: Engine, question: str, collection: str, session_id: str
) -> tuple[Answer, str]:
    """The answer, and what of it was shown while it was written: in a pipe nothing."""
    answer: Answer | None = None
    shown = ""
    live = out().is_terminal
    try:
        events = engine.stream(question, collection=collection, session_id=session_id)
        async for event in events:
            if isinstance(event, Token) and live:
                shown += event.text
                out().print(event.text, end="", markup=False, highlight=False)
            elif isinstance(event, Finished):
                answer = event.answer
    finally:
        await engine.close_connections()
    if shown:
        out().print()
    assert answer is not None, "a stream always ends with Finished"
    return answer, shown
