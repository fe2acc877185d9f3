"""Follow one new question through the files: how many it visits, and how often it changes file.

    python bench/path.py

Reads the sample documents into a new folder, asks a few questions to warm up, then one that was not
asked before, under `sys.setprofile`, in every thread. Counted are frames of Ragstone alone:

- `files` and `functions` that were called;
- `calls`, of which a generator or coroutine that goes on is one each time;
- `changes of file`: calls in another file than the call before, in the same thread;
- `generators a token passes`: async generators that hand on the first token of `Engine.stream`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ragstone
from ragstone import Engine, Token

HOME = str(Path(ragstone.__file__).parent) + "/"
WARM_UP = ["When does the lease end?", "What does a glass of wine cost in the café?"]
QUESTION = "How long do the batteries keep the telescope running in a power cut?"
STREAMED = "What interest is charged on rent that arrives late?"
# Loops inside a function; only some versions of Python give them a frame of their own.
LOOPS = {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}
# What an async generator yields, and not what it awaits, has this type.
HANDED_ON = "async_generator_wrapped_value"


@dataclass
class Recorder:
    """Count the frames of Ragstone while `is_on`; it is set in every thread from the start on."""

    is_on: bool = False
    counts: bool = True
    calls: Counter[CodeType] = field(default_factory=Counter)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    handed_on: dict[CodeType, None] = field(default_factory=dict)
    last: threading.local = field(default_factory=threading.local)

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if not self.is_on or code.co_name in LOOPS or not code.co_filename.startswith(HOME):
            return
        if event == "call" and self.counts:
            self.calls[code] += 1
            before, here = getattr(self.last, "file", ""), code.co_filename
            if before != here:
                self.changes[before.removeprefix(HOME), here.removeprefix(HOME)] += 1
            self.last.file = here
        elif event == "return" and type(value).__name__ == HANDED_ON:
            reader = frame.f_back.f_code.co_filename if frame.f_back else ""
            if not reader.endswith("contextlib.py"):  # a context manager hands on no token
                self.handed_on[code] = None


async def measure(recorder: Recorder, folder: Path) -> None:
    documents = resources.files("ragstone.samples") / "documents"
    async with Engine(folder) as engine:
        await engine.ingest([Path(str(documents))])
        for question in WARM_UP:
            await engine.ask(question)
        recorder.is_on = True
        answer = await engine.ask(QUESTION)
        recorder.is_on = False
        assert answer.status == "answered"
        recorder.counts = False
        recorder.handed_on.clear()
        recorder.is_on = True
        async with aclosing(engine.stream(STREAMED)) as events:
            async for event in events:
                if isinstance(event, Token):
                    break
            recorder.is_on = False


def print_table(head: str, counts: Counter[Any], name: Callable[[Any], str], limit: int) -> None:
    print(f"\n| {head} | times |\n|---|---|")
    for key, count in counts.most_common(limit):
        print(f"| {name(key)} | {count} |")


def name_room(file: str) -> str:
    """Return the folder of a file, in `query/` the stage; the file itself at the top."""
    parts = file.split("/")
    return "/".join(parts[:-1]) + "/" if len(parts) > 1 else file


def name_code(code: CodeType) -> str:
    return f"`{code.co_filename.removeprefix(HOME)}` `{code.co_qualname}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--top", type=int, default=0, help="Also list the most frequent of each.")
    top = parser.parse_args().top
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(recorder, Path(folder) / "data"))
    sys.setprofile(None)
    asked = recorder.calls
    print("| files | functions | calls | changes of file | generators a token passes |")
    print("|---|---|---|---|---|")
    print(
        f"| {len({code.co_filename for code in asked})} | {len(asked)} | {asked.total():,} "
        f"| {recorder.changes.total():,} | {len(recorder.handed_on)} |"
    )
    rooms = Counter[str]()
    for (_, here), count in recorder.changes.items():
        rooms[name_room(here)] += count
    print_table("changes into", rooms, lambda key: f"`{key}`", 12)
    if top:
        print_table("change of file", recorder.changes, lambda key: f"`{key[0]}` → `{key[1]}`", top)
        print_table("function", asked, name_code, top)
        files = Counter(code.co_filename for code in asked)
        print_table("file (its functions)", files, lambda key: key.removeprefix(HOME), len(files))
        print("\nA token passes:", *map(name_code, recorder.handed_on), sep="\n")


if __name__ == "__main__":
    main()
