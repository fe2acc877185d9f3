"""Embed with a model that a library runs in this process.

`EMBEDDING_MODEL` is a folder, or the name of a model, which the library downloads if needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragstone.errors import SettingsError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors


class LibraryEmbedder:
    """Run a model with a library; it is loaded at first use and called once at a time."""

    waits = True

    def __init__(
        self, name: str, load: Callable[[], Callable[[Sequence[str]], Any]], max_tokens: int
    ) -> None:
        self.name = name
        self.max_tokens = max_tokens
        self._load = load
        self._shipped = OnnxEmbedder()
        self._lock = threading.Lock()

    @property
    def tokenizer_file(self) -> Path:
        return self._shipped.tokenizer_file

    def token_starts(self, text: str) -> Sequence[int]:
        return self._shipped.token_starts(text)

    @cached_property
    def dimension(self) -> int:
        return int(self.embed(["."]).shape[1])

    @cached_property
    def _run(self) -> Callable[[Sequence[str]], Any]:
        try:
            return self._load()
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"Cannot load the embedding model {self.name} ({type(error).__name__}).",
                hint="Set EMBEDDING_MODEL to a model that the library knows, or to its folder.",
            ) from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with self._lock:
            vectors = np.array(list(self._run(texts)), dtype=np.float32)
        lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, np.where(lengths > 0, lengths, 1), dtype=np.float32)
