"""Split, compare and clean text: sentences, words, characters that cannot be stored."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import sentencex

T = TypeVar("T")

# NUL and half of a surrogate pair: some databases and UTF-8 cannot carry them.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WORD = re.compile(r"\w+")
_APOSTROPHES = re.compile(r"['’`´]")
# Ends that sentencex would join over: a blank line, the line of a Markdown heading, a row of a
# table, the line before an item of a list.
# A title that the library takes for the end of a sentence: "the adviser, Ms. Dorst".
_TITLE = re.compile(r"\b(?:Ms|Mx|Sra)\.$")
# A number with the dot of an ordinal, and what goes on after it: "am 3. Oktober", "im 2. Stock".
_ORDINAL = re.compile(r"(?:^|[\s(„\"–-])\d{1,2}\.$")
_AFTER_ORDINAL = re.compile(
    r"[a-zäöüß]|(?:Jan|Feb|Mär|Mar|Apr|Mai|Maj|Jun|Jul|Aug|Sep|Okt|Oct|Nov|Dez|Dec)[a-zäöü]*\b"
    r"|(?:Stock|Etage|Obergeschoss|Untergeschoss|Quartal|Halbjahr|Auflage|Kapitel|Abschnitt|Absatz|"
    r"Werktag|Tag|Monat|Jahr|Woche|Klasse|Platz|Mal|Lebensjahr|Jahrhundert)\w*"
)
# What German shortens in the middle of a sentence.
_SHORTENED = re.compile(
    r"(?:^|\s)(?:[zZ]\. ?B|[dD]\. ?h|[uU]\. ?a|bzw|ca|Nr|Abs|Art|Str|Tel|inkl|zzgl)\.$"
)
_BREAK = re.compile(
    r"\n[ \t]*\n"
    r"|\|[ \t]*\n"
    r"|\n(?=[ \t]*(?:\||#{1,6} |[-*+•] |\d{1,3}[.)] ))"
    r"|(?m:^#{1,6} [^\n]*\n)"
)


# What only a machine reads: HTML comments, and shortcodes of site generators. The words that a
# shortcode shows stay.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|\{\{[<%][^}]{0,400}?\b(?:text|term_id)=\"(?P<shown>[^\"]*)\"[^}]{0,400}[%>]\}\}"
    r"|\{\{[<%][^}]{0,800}?[%>]\}\}",
    re.DOTALL,
)


def remove_markup(text: str) -> str:
    """Remove comments and shortcodes, which nobody searches for."""
    if "<!--" not in text and "{{" not in text:
        return text
    return _MARKUP.sub(lambda match: match["shown"] or "", text)


def is_storable(text: str) -> bool:
    return _UNSTORABLE.search(text) is None


def remove_unstorable(text: str) -> str:
    """Drop the characters that cannot be stored, rather than refuse what a model wrote."""
    return _UNSTORABLE.sub("", text)


# The end of a heading that runs into its paragraph: "**Sail.** Play a card."
_CLOSING = re.compile(r"[*_]{1,3}(?=\s|$)")


def find_sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Return the span of every sentence in order, without the white space around it."""
    return list(_find_sentence_spans(text, language))


# Answering, citing and checking split the same passages, for one question after the other.
@lru_cache(maxsize=8_192)
def _find_sentence_spans(text: str, language: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    begin = 0
    for end in [*(match.end() for match in _BREAK.finditer(text)), len(text)]:
        for sentence in sentencex.get_sentence_boundaries(language, text[begin:end]):
            span = _trim_span(text, begin + sentence["start_index"], begin + sentence["end_index"])
            if span[0] == span[1]:
                continue
            if spans and begin <= spans[-1][0] and _goes_on(text, spans[-1], span):
                span = (spans.pop()[0], span[1])
            if spans and spans[-1][1] == span[0] and (mark := _CLOSING.match(text, *span)):
                spans[-1] = (spans[-1][0], mark.end())
                span = _trim_span(text, mark.end(), span[1])
            if span[0] < span[1]:
                spans.append(span)
        begin = end
    return tuple(spans)


def _goes_on(text: str, before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Return True when the library took a dot inside a sentence for its end."""
    if _TITLE.search(text, *before) or _SHORTENED.search(text, *before):
        return True
    is_ordinal = _ORDINAL.search(text, *before) is not None
    return is_ordinal and _AFTER_ORDINAL.match(text, *after) is not None


def _trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def normalize_words(text: str) -> tuple[str, ...]:
    """Return the words of a text without case, apostrophes and punctuation."""
    plain = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return tuple(_WORD.findall(plain))


def measure_word_overlap(claim: str, evidence: str) -> float:
    """Return the harmonic mean of the shares of words that each has in common with the other."""
    left, right = Counter(split_words(claim)), Counter(split_words(evidence))
    shared = sum((left & right).values())
    return 2 * shared / (sum(left.values()) + sum(right.values())) if shared else 0.0


def measure_support(claim: str, evidence: str) -> float:
    """Return the share of a claim's words, and of its runs of three, that the evidence holds."""
    left, right = split_words(claim), split_words(evidence)
    if not left:
        return 0.0
    known = set(right)
    by_word = sum(word in known for word in left) / len(left)
    if len(left) < 3:
        return by_word
    runs = list(zip(left, left[1:], left[2:], strict=False))
    known_runs = set(zip(right, right[1:], right[2:], strict=False))
    by_run = sum(run in known_runs for run in runs) / len(runs)
    return (by_word + by_run) / 2


class TextMemo(dict[str, T]):
    """Keep the last results of a function of one text. A result from elsewhere can be put in."""

    def __init__(self, compute: Callable[[str], T], *, max_entries: int) -> None:
        super().__init__()
        self._compute = compute
        self._max_entries = max_entries
        self._lock = threading.Lock()

    def __missing__(self, text: str) -> T:
        result = self._compute(text)
        with self._lock:
            self[text] = result
            if len(self) > self._max_entries:
                self._drop_oldest()
        return result

    def put(self, text: str, result: T) -> None:
        with self._lock:
            self[text] = result
            if len(self) > self._max_entries:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        del self[next(iter(self))]
