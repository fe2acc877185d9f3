"""Embed with PyTorch models through sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from ragstone.providers.embed import LibraryEmbedder
from ragstone.settings import Settings

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def build(settings: Settings) -> LibraryEmbedder:
    model = settings.embed.model or DEFAULT_MODEL
    batch = settings.embed.batch

    def load() -> Callable[[Sequence[str]], Any]:
        found = SentenceTransformer(model)
        return lambda texts: found.encode(list(texts), batch_size=batch, show_progress_bar=False)

    return LibraryEmbedder(f"sentence-transformers/{Path(model).name}", load, max_tokens=256)
