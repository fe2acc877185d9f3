"""`python -m ragstone` is the `ragstone` command."""

from ragstone.cli import run

run()
