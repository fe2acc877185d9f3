"""Characters that some store or reply cannot carry: NUL, and half of a surrogate pair."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import sentencex

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """The text without them: what a model wrote is not refused for one."""
    return _UNSTORABLE.sub("", text)


# Ends that sentencex would join over: a blank line, the line of a Markdown heading, a row of a
# table, the line before an item of a list.
_BREAK = re.compile(
    r"\n[ \t]*\n"
    r"|\|[ \t]*\n"
    r"|\n(?=[ \t]*(?:\||#{1,6} |[-*+•] |\d{1,3}[.)] ))"
    r"|(?m:^#{1,6} [^\n]*\n)"
)


def sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """The span of every sentence, without the white space around it, in order."""
    return list(_sentence_spans(text, language))


# Answering, citing and checking cut the same passages, one question after the other.
@lru_cache(maxsize=8_192)
def _sentence_spans(text: str, language: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    begin = 0
    for end in [*(match.end() for match in _BREAK.finditer(text)), len(text)]:
        for sentence in sentencex.get_sentence_boundaries(language, text[begin:end]):
            span = _trimmed(text, begin + sentence["start_index"], begin + sentence["end_index"])
            if span[0] < span[1]:
                spans.append(span)
        begin = end
    return tuple(spans)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def word_overlap(claim: str, evidence: str) -> float:
    """Harmonic mean of the shares of words that each has in common with the other."""
    left, right = Counter(words(claim)), Counter(words(evidence))
    shared = sum((left & right).values())
    return 2 * shared / (sum(left.values()) + sum(right.values())) if shared else 0.0


def support(claim: str, evidence: str) -> float:
    """The share of a claim's words, and of its runs of three, that the evidence holds."""
    left, right = words(claim), words(evidence)
    if not left:
        return 0.0
    known = set(right)
    by_word = sum(word in known for word in left) / len(left)
    if len(left) < 3:
        return by_word
    runs = set(_trigrams(right))
    mine = _trigrams(left)
    by_run = sum(run in runs for run in mine) / len(mine)
    return (by_word + by_run) / 2


def _trigrams(sequence: Sequence[str]) -> list[tuple[str, str, str]]:
    return list(zip(sequence, sequence[1:], sequence[2:], strict=False))


_APOSTROPHES = re.compile(r"['’`´]")


def spoken_words(text: str) -> tuple[str, ...]:
    """Return the words of a text without case, apostrophes and punctuation."""
    plain = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return tuple(_WORD.findall(plain))
