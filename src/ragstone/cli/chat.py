"""Run `ragstone chat`: a conversation with the documents, stored as a session."""

from __future__ import annotations

import asyncio
import re
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.text import Text

from ragstone.cli import options
from ragstone.cli.answers import SourceNumbers, print_answer, print_sources, print_text
from ragstone.cli.options import print_error, stderr, stdout
from ragstone.errors import InputError, NotFoundError, ProviderError
from ragstone.events import Finished, Token
from ragstone.types import DEFAULT_COLLECTION, LOCAL_OWNER, Answer

if TYPE_CHECKING:
    from ragstone.engine import Engine

_EXIT_COMMANDS = frozenset({"/quit", "/exit", "/q"})
_COMMAND = re.compile(r"/\w+")
_HELP = (
    "[dim]/new begins a new session · /typed asks the last message again as it was typed · "
    "/quit or Ctrl-D ends[/]"
)


def chat(
    collection: options.Collection = DEFAULT_COLLECTION,
    session: Annotated[
        str | None, typer.Option("--session", help="Continue or begin the session with this id.")
    ] = None,
    continue_: Annotated[
        bool, typer.Option("--continue", help="Continue the session that was used last.")
    ] = False,
    rag: options.Rag = None,
    strict: options.Strict = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Chat with the documents. Follow-ups ("and in 2023?") are understood, answers are streamed.

    In a pipe every line is a question. A follow-up is searched as a whole question, which the
    reply names; /typed asks it again as it was typed, and /new begins a new session.

    Examples:

      ragstone chat --collection contracts

      ragstone chat --session holiday-plans

      ragstone chat --continue

      printf 'What is the rent?\\nand the deposit?\\n' | ragstone chat
    """
    if session and continue_:
        raise InputError(
            "--session and --continue name two conversations.", hint="Leave one of them out."
        )
    flags = {"retrieve.enabled": rag, "provider.strict": strict or None}
    with options.open_engine(options.load_settings(data, config, preset, set, **flags)) as engine:
        options.require_collection(engine, collection)
        session_id = session or uuid.uuid4().hex
        if continue_:
            session_id = _find_last_session(engine, collection)
        if sys.stdin.isatty():
            stderr().print(f"[dim]session {session_id}[/] · {_HELP}")
        last = ""
        for line in _read_lines():
            if line == "/new":
                session_id, last = uuid.uuid4().hex, ""
                stderr().print(f"[dim]session {session_id}[/]")
            elif line == "/typed" and not last:
                stderr().print("There is no message yet to ask again.")
            elif line != "/typed" and _COMMAND.fullmatch(line):
                if line != "/help":
                    stderr().print(f"There is no command {line}.")
                stderr().print(_HELP)
            elif line:
                as_typed = line == "/typed"
                last = last if as_typed else line
                _ask_once(engine, last, collection, session_id, as_typed=as_typed)


def _find_last_session(engine: Engine, collection: str) -> str:
    latest = engine.history.list_sessions(LOCAL_OWNER, limit=1, collections=[collection])
    if not latest:
        raise NotFoundError(
            f"There is no session in the collection '{collection}' to continue.",
            hint="Begin one with: ragstone chat",
        )
    return latest[0].id


def _read_lines() -> Iterator[str]:
    """Yield the lines that are typed or piped in, up to /quit or the end."""
    while True:
        if sys.stdin.isatty():
            stderr().print("[bold cyan]›[/] ", end="")
        line = sys.stdin.readline()
        if not line or line.strip().lower() in _EXIT_COMMANDS:
            return
        yield line.strip()


def _ask_once(
    engine: Engine, question: str, collection: str, session_id: str, *, as_typed: bool
) -> None:
    """Ask one question; print an error about it and let the conversation go on."""
    numbers = SourceNumbers()
    try:
        answer, streamed = asyncio.run(
            _stream_answer(engine, question, collection, session_id, numbers, as_typed=as_typed)
        )
    except (InputError, ProviderError) as error:
        print_error(error)
        return
    answer = options.warn_about_provider(engine, answer)
    if not streamed:
        print_answer(answer)
    else:
        if streamed.strip() != answer.text.strip():
            stdout().print("[dim]checked:[/]")
            print_text(numbers.renumber(answer.text))
        print_sources(answer, numbers)
    stdout().print()
    sys.stdout.flush()


async def _stream_answer(
    engine: Engine,
    question: str,
    collection: str,
    session_id: str,
    numbers: SourceNumbers,
    *,
    as_typed: bool,
) -> tuple[Answer, str]:
    """Return the answer and the text that was streamed to the terminal; in a pipe none was.

    What is being written stands below, as it comes; each finished paragraph is rendered.
    """
    answer: Answer | None = None
    streamed = unfinished = ""
    is_terminal = stdout().is_terminal
    try:
        events = engine.stream(
            question,
            collection=collection,
            session_id=session_id,
            is_chat=True,
            as_typed=as_typed,
        )
        with Live(console=stdout(), transient=True, auto_refresh=False) as live:
            async for event in events:
                if isinstance(event, Token) and is_terminal:
                    streamed += event.text
                    finished, unfinished = split_paragraphs(unfinished + event.text)
                    if finished:
                        print_text(numbers.renumber(finished))
                        stdout().print()  # `split_paragraphs` takes the empty line between two
                    live.update(Text(numbers.renumber(unfinished)), refresh=True)
                elif isinstance(event, Finished):
                    answer = event.answer
            live.update("", refresh=is_terminal)
    finally:
        await engine.close_connections()
    if unfinished.strip():
        print_text(numbers.renumber(unfinished))
    assert answer is not None, "a stream always ends with Finished"
    return answer, streamed


def split_paragraphs(text: str) -> tuple[str, str]:
    """Split off the paragraphs that are complete; a block of code is one, with its empty lines."""
    end = text.rfind("\n\n")
    while end > 0 and text[:end].count("```") % 2:
        end = text.rfind("\n\n", 0, end)
    return (text[:end], text[end:].lstrip("\n")) if end > 0 else ("", text)
