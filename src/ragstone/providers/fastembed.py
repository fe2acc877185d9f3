"""Embed with ONNX models through fastembed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastembed import TextEmbedding

from ragstone.providers.embed import LibraryEmbedder
from ragstone.settings import Settings

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"


def build(settings: Settings) -> LibraryEmbedder:
    model = settings.embed.model or DEFAULT_MODEL
    batch = settings.embed.batch

    def load() -> Callable[[Sequence[str]], Any]:
        folder = Path(model).expanduser()
        if folder.is_dir():
            found = TextEmbedding(_find_library_name(folder.name), specific_model_path=str(folder))
        else:
            found = TextEmbedding(model)
        return lambda texts: found.embed(list(texts), batch_size=batch)

    return LibraryEmbedder(f"fastembed/{Path(model).name}", load, max_tokens=512)


def _find_library_name(name: str) -> str:
    """Return the library's name for a model folder; the library needs it to choose the pooling."""
    for row in TextEmbedding.list_supported_models():
        if row["model"].rpartition("/")[2].casefold() == name.casefold():
            return str(row["model"])
    raise ValueError(f"Unknown fastembed model {name!r}.")
