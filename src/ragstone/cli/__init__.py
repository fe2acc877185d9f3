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
        # `ragstone history | head`: the reader has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
