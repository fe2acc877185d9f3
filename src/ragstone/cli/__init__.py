"""Run the command line: `run` is the entry point of the `ragstone` command."""

from __future__ import annotations

import errno
import os
import sys


def run() -> None:
    """Run a command.

    Exits with 0 (success), 1 (explained error), 2 (wrong usage or settings) or 130 (Ctrl-C). An
    error that we understand prints no traceback. The imports stand inside the `try`: they take a
    second on a slow disk, and Ctrl-C may come in the middle of them.
    """
    try:
        from ragstone.cli.main import app, exit_on_error

        try:
            with exit_on_error():
                app()
        finally:
            # Notice a closed pipe here, and not when Python itself ends.
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _exit_without_output(0)
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename:
            raise
        sys.stderr.write("error: The output cannot be written: the disk is full.\n")
        _exit_without_output(1)
    except SystemExit as ended:
        # Typer reports a failure where more was written than the pipe's buffer holds.
        if isinstance(ended.__context__, BrokenPipeError):
            _exit_without_output(0)
        raise


def _exit_without_output(code: int) -> None:
    """Exit where nothing can be written; with 0 if a pipe is closed, as in `history | head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still flushes at its end
    sys.exit(code)
