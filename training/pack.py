"""Pack rows for training: each text tokenised once, rows as numbers, one .npz-like file in xz.

A text is stored as WordPiece ids. WordPiece never joins over white space, so the ids of texts set
one after the other are the ids of the joined text: a passage with distractors around it is a list
of pieces, and costs nothing twice.

A row: task, question piece, pieces of the passage, start and end token in the passage, label,
weight of the rank target.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

READ, VERIFY, RANK = 0, 1, 2
NO_ANSWER, NO_SPAN, UNLABELLED = -1, -2, -3  # values of `start` where a row has no span
SUPPORTED, CONTRADICTED, NEUTRAL, NOT_SUPPORTED = 0, 1, 2, 3
CLS, SEP = 101, 102

Array = np.ndarray[Any, Any]


@dataclass
class Packer:
    """Collect rows; tokenise every text once, at the end."""

    tokenizer: Tokenizer
    longest: int = 340
    known: dict[str, int] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    spans: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add_text(self, text: str) -> int:
        """Return the number of a text."""
        return self.known.setdefault(text, len(self.known))

    def add_row(
        self,
        task: int,
        first: str,
        pieces: Sequence[str],
        *,
        span: tuple[int, int, int] | None = None,
        state: int = NO_ANSWER,
        label: int = -1,
    ) -> None:
        """Add a row; `span` is a piece and its first and last character, else `state` says why."""
        number, begin = self.add_text(first), len(self.pieces)
        self.pieces += [self.add_text(piece) for piece in pieces]
        if span is not None:
            self.spans[len(self.rows)] = span
        self.rows.append([task, number, begin, len(self.pieces), state, state, label])

    def tokenise(self) -> list[Array]:
        """Tokenise the texts and turn spans of characters into spans of tokens."""
        texts = list(self.known)
        wanted = {self.pieces[self.rows[row][2] + span[0]] for row, span in self.spans.items()}
        offsets: dict[int, list[tuple[int, int]]] = {}
        tokens: list[Array] = []
        for begin in range(0, len(texts), 8000):
            block = texts[begin : begin + 8000]
            for found in self.tokenizer.encode_batch(block, add_special_tokens=False):
                if len(tokens) in wanted:
                    offsets[len(tokens)] = found.offsets[: self.longest]
                tokens.append(np.array(found.ids[: self.longest], np.uint16))
        for at, (piece, start, end) in self.spans.items():
            row = self.rows[at]
            numbers = self.pieces[row[2] : row[3]]
            shift = sum(len(tokens[number]) for number in numbers[:piece])
            places = offsets[numbers[piece]]
            inside = [i for i, (a, b) in enumerate(places) if a < end and b > start]
            row[4], row[5] = (
                (shift + inside[0], shift + inside[-1]) if inside else (UNLABELLED, UNLABELLED)
            )
        return tokens

    def write(self, path: Path) -> None:
        """Write everything to one file."""
        tokens = self.tokenise()
        arrays = {
            "tokens": np.concatenate(tokens),
            "lengths": np.array([len(one) for one in tokens], np.uint16),
            "rows": np.array(self.rows, np.int32),
            "pieces": np.array(self.pieces, np.int32),
        }
        file = io.BytesIO()
        np.savez(file, **arrays)
        filters = [
            {"id": lzma.FILTER_LZMA2, "preset": 4, "dict_size": 1 << 26, "lc": 1, "lp": 1, "pb": 1}
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(file.getvalue(), filters=filters))


@dataclass(frozen=True, slots=True)
class Packed:
    """Hold the rows of packed files as flat arrays, [CLS] first [SEP] second [SEP] in `ids`."""

    ids: Array
    begin: Array
    length: Array
    first_length: Array
    task: Array
    start: Array
    end: Array
    label: Array
    written: Array  # true for rows made from those written by hand

    @classmethod
    def load(cls, paths: Sequence[Path], longest: int, *, sample: int = 0) -> Packed:
        """Read packed files and lay every row out, or `sample` rows of each file."""
        parts = [cls._load_one(path, longest, sample) for path in paths]
        shift = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
        join = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in (
                "ids",
                "length",
                "first_length",
                "task",
                "start",
                "end",
                "label",
                "written",
            )
        }
        begin = np.concatenate([part.begin + s for part, s in zip(parts, shift, strict=True)])
        return cls(begin=begin, **join)

    @classmethod
    def _load_one(cls, path: Path, longest: int, sample: int) -> Packed:
        archive = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
        tokens, lengths = archive["tokens"], archive["lengths"].astype(np.int64)
        rows, pieces = archive["rows"], archive["pieces"]
        if sample:
            rows = rows[np.random.default_rng(3).choice(len(rows), sample, replace=False)]
        at = np.concatenate([[0], np.cumsum(lengths)])
        ids: list[Array] = []
        length, first_length = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
        cls_, sep = np.array([CLS], np.uint16), np.array([SEP], np.uint16)
        for i, (_, first, a, b, *_rest) in enumerate(rows):
            question = tokens[at[first] : at[first] + min(lengths[first], longest // 2)]
            second = [tokens[at[p] : at[p + 1]] for p in pieces[a:b]]
            room = longest - len(question) - 3
            passage = np.concatenate(second)[:room] if second else tokens[:0]
            ids += [cls_, question, sep, passage, sep]
            first_length[i] = len(question) + 2
            length[i] = first_length[i] + len(passage) + 1
        start, end, label = (rows[:, i].copy() for i in (4, 5, 6))
        spans = start >= 0
        start[spans] += first_length[spans]
        end[spans] += first_length[spans]
        cut = spans & (end >= length - 1)  # the span was cut away with the end of the passage
        start[cut] = end[cut] = UNLABELLED
        begin = np.concatenate([[0], np.cumsum(length.astype(np.int64))])[:-1]
        written = np.full(len(rows), path.name.startswith("written"))
        return cls(
            np.concatenate(ids), begin, length, first_length, rows[:, 0], start, end, label, written
        )
