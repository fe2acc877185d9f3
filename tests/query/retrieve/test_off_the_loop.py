"""A long question does not stop the event loop while it is embedded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from ragstone import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors
from ragstone.settings import load_settings


class _WatchedEmbedder(OnnxEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any(len(text) > 500 for text in texts):
            self.threads.append(threading.current_thread())
        return super().embed(texts)


async def test_questions_are_embedded_off_the_event_loop(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("The zebra gate is painted green.")
    embedder = _WatchedEmbedder()
    flags = {"data.directory": tmp_path / "data"}
    settings = load_settings(flags=flags, environ={}).settings
    async with Engine(settings, embedder=embedder) as engine:
        await engine.ingest([tmp_path / "gate.md"])
        embedder.threads.clear()
        await engine.search(f"What colour is the {'very ' * 150}old gate?")
        await engine.ask("(" * 9_000 + "What colour has the gate?", is_chat=True)
        assert len(embedder.threads) >= 2
        assert threading.current_thread() not in embedder.threads
