"""The command line, one file per command; `run` is where the `ragstone` command begins."""

from __future__ import annotations

import os
import sys


def run() -> None:
    """Exit codes: 0 well, 1 a failure that is explained, 2 a wrong command line, 130 Ctrl-C.

    No traceback reaches a person for a failure that we understand. The imports stand inside the
    guard: they take a second on a slow disk, and Ctrl-C may come in the middle of them.
    """
    try:
        from ragstone.cli.main import app, explained

        try:
            with explained():
                app()
        finally:
            # A reader that has gone is noticed here, and not when Python itself ends.
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _reader_has_enough()
    except SystemExit as ended:
        # Typer makes a failure of it where more was written than the pipe's buffer holds.
        if isinstance(ended.__context__, BrokenPipeError):
            _reader_has_enough()
        raise


def _reader_has_enough() -> None:
    """`ragstone history | head` is no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what Python still flushes at its end
    sys.exit(0)
