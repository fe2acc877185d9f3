"""Counting tokens as an embedder does, from its tokenizer file alone: no model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol


class TokenCounter(Protocol):
    """What a splitter must know of an embedder."""

    @property
    def max_tokens(self) -> int: ...
    def token_starts(self, text: str) -> Sequence[int]: ...


class FileTokenizer:
    """A tokenizer file with the limit of the model it belongs to."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self.max_tokens = max_tokens
        self._tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def token_starts(self, text: str) -> Sequence[int]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [start for start, _ in encoding.offsets]


@cache
def tokenizer(path: str, max_tokens: int) -> FileTokenizer:
    return FileTokenizer(Path(path), max_tokens)
