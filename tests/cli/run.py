"""Runs `ragstone` as a person does, in a process of its own or in this one, which is quicker."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import typer

import ragstone.cli
from ragstone.cli import options

from ..patience import LONG_S

# To build the tree of commands takes longer than most of them.
_get_command = functools.cache(typer.main.get_command)

# Capabilities with which root passes over file permissions, and the call that gives them up.
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def environment(**extra: str) -> dict[str, str]:
    """What a process sees."""
    known = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name in known}
    return kept | {"NO_COLOR": "1"} | extra


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ragstone", *map(str, arguments)]


def run(
    *arguments: str | Path, cwd: Path, obey_permissions: bool = False, **extra: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
        preexec_fn=_obey_permissions if obey_permissions else None,
    )


def call(
    *arguments: str | Path, cwd: Path, typed: str = "", **extra: str
) -> subprocess.CompletedProcess[str]:
    """Do the same as `run` in this process: a process takes two seconds to import everything.

    The command sees the same arguments, folder, environment, and pipes instead of a terminal;
    `typed` is what it reads from standard input.
    """
    words = [str(word) for word in arguments]
    output, errors = io.StringIO(), io.StringIO()
    code: int | str | None = 0
    with (
        clean_process(environment(**extra), cwd),
        mock.patch.object(typer.main, "get_command", _get_command),
        mock.patch.object(sys, "argv", ["ragstone", *words]),
        mock.patch.object(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode(errors="surrogateescape")))
        ),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            ragstone.cli.run()
        except SystemExit as ended:
            code = ended.code
    assert code is None or isinstance(code, int), code
    return subprocess.CompletedProcess(words, code or 0, output.getvalue(), errors.getvalue())


@contextlib.contextmanager
def clean_process(environ: dict[str, str], cwd: Path) -> Iterator[None]:
    """Let the block see what a new process would see, and undo what it changes."""
    log = logging.getLogger("ragstone.settings")
    handlers = list(log.handlers)
    consoles = (options.stdout, options.stderr)
    for console in consoles:
        console.cache_clear()
    try:
        with mock.patch.dict(os.environ, environ, clear=True), contextlib.chdir(cwd):
            yield
    finally:
        log.handlers[:] = handlers
        for console in consoles:
            console.cache_clear()


def _obey_permissions() -> None:
    """Let root be held by file permissions like anybody else."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            assert libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def assert_refused(done: subprocess.CompletedProcess[str], *said: str, code: int = 1) -> None:
    """One sentence, one hint, the exit code, no traceback, and nothing on standard output."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    lines = done.stderr.strip().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    assert lines[0].endswith((".", "?"))
    for words in said:
        assert words in done.stderr
    assert done.stdout == ""
