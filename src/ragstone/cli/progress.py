"""How far a long piece of work is: a bar in a terminal, a line now and then where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragstone.cli.terminal import err

# Where there is no terminal, a line is written this often.
_LINE_EVERY_S = 10.0


@contextmanager
def telling() -> Iterator[Callable[[str, int, int], None]]:
    """A function that is told what is being done, how much of it is done, and how much there is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    said = time.monotonic()
    with Progress(*columns, console=err(), transient=True, disable=not err().is_terminal) as bar:
        task = bar.add_task("", total=None)
        doing = ""

        def told(what: str, done: int, total: int) -> None:
            nonlocal said, doing
            if what != doing:
                doing = what
                bar.reset(task, description=what, total=total)
            bar.update(task, completed=done, total=total)
            if not err().is_terminal and time.monotonic() - said > _LINE_EVERY_S:
                said = time.monotonic()
                err().print(f"{what}: {done} of {total}")

        yield told
