"""`ragstone check`: does an answer say what the files say?"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import out, print_json, print_table
from ragstone.errors import InputError
from ragstone.types import Grounding


def check(
    answer: Annotated[str, typer.Argument(help="The answer to check, or - to read it from stdin.")],
    against: Annotated[
        list[Path], typer.Option("--against", "-a", help="Files or folders; may be repeated.")
    ],
    json: options.Json = False,
) -> None:
    """Check every sentence of an answer against files, without a model server.

    Examples:

      ragstone check "The lease ends in 2039." --against lease.pdf

      ragstone check - --against manuals/ --json < answer.txt
    """
    text = sys.stdin.read() if answer == "-" else answer
    found, names = asyncio.run(_checked(text, against))
    if json:
        from ragstone.server.routes.check import CheckReply

        print_json({**CheckReply.of(found).model_dump(mode="json"), "facts": names})
        return
    rows = [
        (claim.verdict, f"{claim.score:.2f}", claim.text, ", ".join(names[n - 1] for n in
         claim.citations) or " ".join(claim.reasons))
        for claim in found.claims
    ]  # fmt: skip
    print_table(["verdict", "score", "claim", "source or reason"], rows)
    out().print(f"[dim]support {found.support_score:.2f}[/]")


async def _checked(answer: str, paths: list[Path]) -> tuple[Grounding, list[str]]:
    """Read the files as ingestion reads them, into a place that is gone afterwards."""
    from ragstone.engine import Engine
    from ragstone.settings import load_settings

    with tempfile.TemporaryDirectory() as directory:
        settings = load_settings(flags={"data.directory": Path(directory)}).settings
        async with Engine(settings) as engine:
            report = await engine.ingest(paths)
            if failed := report.of("failed"):
                raise InputError(f"{failed[0].name}: {failed[0].error}", hint=failed[0].hint)
            documents = [engine.catalog.document(one.id) for one in engine.documents()]
            found = await engine.check(answer, [one.text for one in documents])
            return found, [one.name for one in documents]
