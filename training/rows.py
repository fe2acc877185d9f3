"""Read the training sets: rows by question or claim, sentences, questions as people type them.

Every choice is made by a seeded generator or by SHA-256 of the text, so that two runs give the
same rows. Titles of squad2-dev-half whose hash is odd are held back from training.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
OUT = Path(__file__).parent / "out"

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "to",
        "in",
        "on",
        "at",
        "for",
        "from",
        "by",
        "with",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "do",
        "does",
        "did",
        "what",
        "which",
        "who",
        "whom",
        "when",
        "where",
        "why",
        "how",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "and",
        "or",
        "as",
        "there",
        "i",
        "you",
        "can",
    ]
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”)]*\s+(?=[\"'“(]*[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|vs|No|Inc|Ltd|Co|e\.g|i\.e|al|cf|Fig)\.$")


def digest(text: str) -> int:
    """Return the SHA-256 of a text as a number."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def is_held_back(title: str) -> bool:
    """Tell whether a title of squad2-dev-half belongs to the test half."""
    return digest(title) % 2 == 1


def read_set(name: str, data: Path = DATA) -> Iterator[Row]:
    """Yield the rows of one training set, e.g. `t1/boolq`."""
    with gzip.open(data / "train" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def read_lines(path: Path) -> list[Row]:
    """Read a file with one JSON object a line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def sample_rows(rows: list[Row], most: int) -> list[Row]:
    """Keep at most `most` rows, whole groups at a time, in the order of the groups' hashes."""
    if len(rows) <= most:
        return rows
    ordered = sorted(rows, key=lambda row: digest(str(row["group"])))
    return ordered[:most]


def split_sentences(text: str) -> list[str]:
    """Cut a text into sentences by rule; good enough for training rows."""
    parts: list[str] = []
    begin = 0
    for match in _SENTENCE_END.finditer(text):
        if _ABBREVIATION.search(text[begin : match.start()]):
            continue
        parts.append(text[begin : match.start()].strip())
        begin = match.end()
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def squeeze(text: str) -> str:
    """Join white space."""
    return " ".join(text.split())


@lru_cache(maxsize=200_000)
def plain(text: str) -> str:
    """Lower-case, letters and digits only: for finding an answer in a text."""
    return " ".join(re.findall(r"\w+", text.lower()))


def find_answer(text: str, answer: str) -> tuple[int, int] | None:
    """Find an answer string in a text, at word borders, in any case."""
    pattern = r"(?<!\w)" + re.escape(answer.strip()) + r"(?!\w)"
    found = re.search(pattern, text) or re.search(pattern, text, re.IGNORECASE)
    return found.span() if found else None


def _add_typo(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    kind = rng.randrange(3)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at] + word[at:]


_IMPERATIVES = ("tell me ", "find out ", "explain ", "I want to know ", "please say ", "show ")


def type_question(question: str, rng: random.Random) -> str:
    """Write a question the way people type it: no case, no mark, keywords, typos, imperatives."""
    kind = rng.randrange(6)
    bare = question.rstrip(" ?.").strip()
    if kind == 0:
        return bare.lower()
    if kind == 1:
        words = [word for word in bare.split() if word.lower() not in STOP_WORDS]
        return " ".join(words).lower() if len(words) >= 3 else bare
    if kind == 2:
        return rng.choice(_IMPERATIVES) + bare[:1].lower() + bare[1:]
    if kind == 3:
        words = bare.split()
        long = [i for i, word in enumerate(words) if len(word) > 4 and word.isalpha()]
        for i in rng.sample(long, min(len(long), 1 + (len(words) > 9))):
            words[i] = _add_typo(words[i], rng)
        return " ".join(words) + rng.choice(("?", ""))
    if kind == 4:
        return bare
    return bare.lower() + " ?"
