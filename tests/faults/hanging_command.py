"""Run `ragstone` with an embedder that stops for ever after some texts.

Run as `python hanging_command.py TEXTS COMMAND …`. Then a kill comes in the middle of the work,
however slow the process is that watches and kills.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from ragstone.cli.main import app
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors


def stop_after(texts_left: int) -> None:
    embed = OnnxEmbedder.embed

    def embed_or_hang(self: OnnxEmbedder, texts: Sequence[str]) -> Vectors:
        nonlocal texts_left
        texts_left -= len(texts)
        if texts_left < 0:
            threading.Event().wait()
        return embed(self, texts)

    OnnxEmbedder.embed = embed_or_hang  # type: ignore[method-assign]


if __name__ == "__main__":
    stop_after(int(sys.argv.pop(1)))
    app()
