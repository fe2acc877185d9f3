"""Classify short texts: what a message wants, which kind of question it is, whether a sentence is
an instruction to a language model.

texts → probabilities, by one linear model over hashed pieces of words, words and pairs of words in
any language. All heads share one table; `training/classifier.py` fits it.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

HEADS: dict[str, tuple[str, ...]] = {
    "intent": (
        "question", "greeting", "gratitude", "farewell", "chitchat", "help", "acknowledgement",
    ),
    "stands_alone": ("yes", "no", "more"),
    "route": ("ask", "summarize", "overview", "list", "compare", "compose"),
    "questions": ("one", "two"),
    "injection": ("text", "instruction"),
}  # fmt: skip
"""The labels of each head. The first one is the ordinary case: its score is always zero."""
BITS = 20
"""The table has two to this power of rows."""

Features: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.intp], NDArray[np.float32]]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_REPEATED = re.compile(r"(.)\1{2,}", re.DOTALL)
_LONGEST_PIECE = 5
_BASE, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
_WORD, _PAIR = np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
# Two words with one or two others between them: "tell … that".
_GAPS = {2: np.uint64(0x85EBCA77C2B2AE63), 3: np.uint64(0x9FB21C651E98DF25)}
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))


def split_tokens(text: str) -> list[str]:
    """Split a text into words and marks, without case, accents and stretched letters."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in text if not unicodedata.combining(char))
        text = unicodedata.normalize("NFC", text)
    return _TOKEN.findall(_REPEATED.sub(r"\1\1", text.casefold()))


def compute_features(texts: Sequence[str]) -> Features:
    """Return hashes, the place of the text that each belongs to, and their values.

    The hashes are those of pieces of one to five characters, the ends of a word among them, and of
    words, of pairs of words and of words with one or two between them. The values of each of the
    three kinds shrink with their number, so that strange words leave the others less to say.
    """
    parts = [f" ^ {' '.join(split_tokens(text))} $" for text in texts]
    codes = np.frombuffer(("".join(parts) + " ").encode("utf-32-le", "surrogatepass"), np.uint32)
    owners = np.repeat(np.arange(len(texts)), [len(part) for part in parts])
    is_space = codes == ord(" ")
    powers, inverses = _list_powers(1 << len(codes).bit_length())
    # A substring's hash is a difference of two sums, moved to the same place.
    sums = _sum_up(codes * powers[: len(codes)])
    spaces = _sum_up(is_space.astype(np.uint64))
    hashes, at = [], []
    for length in range(1, _LONGEST_PIECE + 1):
        start = np.arange(len(codes) - length + 1)
        inside = spaces[start + max(length - 1, 1)] - spaces[start + min(length - 1, 1)]
        start = start[~is_space[start]] if length == 1 else start[inside == 0]
        hashes.append((sums[start + length] - sums[start]) * inverses[start])
        at.append(owners[start])
    pieces, piece_of = np.concatenate(hashes), np.concatenate(at)
    edges = np.flatnonzero(is_space)
    start, end = edges[:-1] + 1, edges[1:]
    start, end = start[end > start], end[end > start]
    words = _mix((sums[end] - sums[start]) * inverses[start] * _WORD)
    word_of = owners[start]
    pairs = _mix(words[:-1] * _PAIR + words[1:])
    is_pair = word_of[:-1] == word_of[1:]
    terms, term_of = (
        np.concatenate((words, pairs[is_pair])),
        np.concatenate((word_of, word_of[:-1][is_pair])),
    )
    apart, apart_of = [], []
    for gap, salt in _GAPS.items():
        is_pair = word_of[:-gap] == word_of[gap:]
        apart.append(_mix(words[:-gap] * salt + words[gap:])[is_pair])
        apart_of.append(word_of[:-gap][is_pair])
    owned = (piece_of, term_of, np.concatenate(apart_of))
    counts = [np.maximum(np.bincount(of, minlength=len(texts)), 1) for of in owned]
    values = [
        (1 / np.sqrt(count))[of].astype(np.float32) for of, count in zip(owned, counts, strict=True)
    ]
    return (
        np.concatenate((_mix(pieces), terms, *apart)),
        np.concatenate(owned),
        np.concatenate(values),
    )


def _sum_up(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    sums = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=sums[1:])
    return sums


def _mix(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX
    return np.asarray(hashes ^ (hashes >> np.uint64(32)))


@lru_cache(maxsize=8)
def _list_powers(count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    bases = np.full((2, count), [[_BASE], [_INVERSE]], np.uint64)
    bases[:, 0] = 1
    powers = np.cumprod(bases, axis=1, dtype=np.uint64)
    return powers[0], powers[1]


def find_rows(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint8]]:
    """Return the row of the table for each hash, and the byte that tells it from others."""
    rows = (hashes >> np.uint64(64 - BITS)).astype(np.intp)
    return rows, (hashes & np.uint64(255)).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Classifier:
    """A linear model: a row of int8 weights for each known hash, a column for each label."""

    marks: NDArray[np.uint8]
    """The byte of the hash that each row belongs to."""
    weights: dict[str, NDArray[np.int8]]
    """For each head, a line of weights for each label after the first."""
    scales: dict[str, NDArray[np.float32]]
    biases: dict[str, NDArray[np.float32]]

    def score(self, head: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the probability of each label of a head, a row for each text."""
        hashes, owners, values = compute_features(texts)
        rows, marks = find_rows(hashes)
        known = self.marks[rows] == marks
        rows, owners, values = rows[known], owners[known], values[known]
        logits = np.zeros((len(texts), len(HEADS[head])))
        for number, line in enumerate(self.weights[head]):
            sums = np.bincount(owners, weights=line[rows] * values, minlength=len(texts))
            logits[:, number + 1] = sums * self.scales[head][number] + self.biases[head][number]
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@cache
def load_classifier() -> Classifier:
    file = resources.files(__package__).joinpath("classifier.npz").read_bytes()
    with np.load(io.BytesIO(file)) as stored:
        tables = ({head: stored[f"{name}_{head}"] for head in HEADS if f"{name}_{head}" in stored}
                  for name in ("weights", "scales", "biases"))  # fmt: skip
        return Classifier(stored["marks"], *tables)


@lru_cache(maxsize=512)
def classify(head: str, text: str) -> tuple[str, float]:
    """Return the likeliest label of a text and its probability."""
    found = load_classifier().score(head, [text])[0]
    best = int(np.argmax(found))
    return HEADS[head][best], float(found[best])


def classify_route(text: str) -> tuple[str, float]:
    """Return what kind of question a text is and how probable that is.

    `ask`, `summarize` a document or a topic, `overview` of all documents, `list` or count
    documents, `compare` two things, `compose`: write, translate or rewrite a text.
    """
    return classify("route", text)


def asks_two_questions(text: str) -> bool:
    return classify("questions", text)[0] == "two"


def stands_alone(text: str) -> bool:
    """Return True for a message that makes sense without the conversation before it."""
    return classify("stands_alone", text)[0] == "yes"
