"""Split, compare and clean text: sentences, words, characters that cannot be stored."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeVar

import sentencex

T = TypeVar("T")

# NUL and half of a surrogate pair: some databases and UTF-8 cannot carry them.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WORD = re.compile(r"\w+")
_APOSTROPHES = re.compile(r"['’`´]")
# A title that the library takes for the end of a sentence: "the adviser, Ms. Dorst".
_TITLE = re.compile(r"\b(?:Ms|Mx|Sra)\.$")
# A number with the dot of an ordinal, and what goes on after it: "am 3. Oktober", "im 2. Stock".
_ORDINAL = re.compile(r"(?:^|[\s(„\"–-])\d{1,2}\.$")
# What stands before an item of a list: a bullet, "1.", "b)", "(iv)".
LIST_MARK = r"(?:[-*+•▪◦–]|\d{1,3}[.)]|\(?(?:[a-z]|[ivx]{2,5})\))"
_MONTH = r"(?:Jan|Feb|Mär|Mar|Apr|Mai|Maj|Jun|Jul|Aug|Sep|Okt|Oct|Nov|Dez|Dec)[a-zäöü]*\b"
_AFTER_ORDINAL = re.compile(
    rf"[a-zäöüß]|{_MONTH}"
    r"|(?:Stock|Etage|Obergeschoss|Untergeschoss|Quartal|Halbjahr|Auflage|Kapitel|Abschnitt|Absatz|"
    r"Werktag|Tag|Monat|Jahr|Woche|Klasse|Platz|Mal|Lebensjahr|Jahrhundert)\w*"
)
# What German shortens in the middle of a sentence.
_SHORTENED = re.compile(
    r"(?:^|\s)(?:[zZ]\. ?B|[dD]\. ?h|[uU]\. ?a|bzw|ca|Nr|Abs|Art|Str|Tel|inkl|zzgl)\.$"
)
# Ends that sentencex would join over: a blank line, the line of a Markdown heading, a row of a
# table, the line before an item of a list.
_BREAK = re.compile(
    r"\n[ \t]*\n"
    r"|\|[ \t]*\n"
    r"|\n(?=[ \t]*(?:\||#{1,6} |[-*+•] |\d{1,3}[.)] ))"
    r"|(?m:^#{1,6} [^\n]*\n)"
)
# A line that may begin a clause: "2.1 The price", "§ 3 (2) Der Mieter", "(2) Der", "(a) the".
_CLAUSE = re.compile(
    r"(?:\A|\n)(?=[ \t]*(?P<mark>(?P<exact>§§? ?\d{1,4}[a-z]?|\d{1,3}(?:\.\d{1,3}){1,4}\.?)"
    r"|\(\d{1,3}[a-z]?\)|\(?(?:[a-z]|[ivx]{2,5})\))[ \t]+(?P<word>\S+))"
)
_QUOTE_ENDS = r"(?:\[\d{1,3}\]|['\"”’»」』）)\]*_])*"
_STOP = re.compile(rf"(?:[.!?…:;。！？；：।؟]{_QUOTE_ENDS}|[,;，；] ?(?:and|or|und|oder))$")
_COLON = re.compile(rf"(?:[:;：；]{_QUOTE_ENDS}|[,;，；] ?(?:and|or|und|oder))$")
# Words before a number or letter that is not the mark of a clause: "as agreed in clause / 2.1".
_REFERRING = re.compile(
    r"\b(?:clauses?|sections?|articles?|paragraphs?|sub-?(?:clauses?|sections?|paragraphs?)|parts?|"
    r"chapters?|items?|points?|schedules?|versions?|figures?|tables?|pages?|rules?|steps?|"
    r"(?:nos?|nr|secs?|sect|arts?|cl|paras?|pp?|ver|vs?|figs?|tab|ch|cf|ca|approx|abs|ziff|vgl|gem|bzw|"
    r"rn|s)\.|ziffern?|abs(?:ätze|atz)n?|abschnitte?n?|artikeln?|punkte?n?|nummern?|kapiteln?|absatz|"
    r"buchstaben?|seiten?|paragra(?:ph|f)en|satz)$",
    re.IGNORECASE,
)
# Words that a number goes on after: "rose by / 2.1", "nach / § 3".
_GOING_ON = re.compile(
    r"\b(?:a|an|the|of|to|by|in|on|at|for|from|with|under|than|about|around|nearly|over|see|and|or|"
    r"is|are|was|were|per|between|only|der|die|das|des|dem|den|von|vom|nach|um|auf|mit|im|gemäß|laut|"
    r"rund|etwa|fast|über|unter|siehe|und|oder|bis|zu|zum|zur|aus|bei|gegen|nur|ist|sind|war)$",
    re.IGNORECASE,
)
# What follows a reference: "(a) above", "2.1 and 2.2", "§ 3 Absatz 2".
_AFTER_REFERENCE = re.compile(
    r"(?:and|or|to|above|below|of|und|oder|bis|oben|unten|abs\.|absatz|satz|nr\.|hereof|thereof)(?!\w)|\W",
    re.IGNORECASE,
)
_MARKED = re.compile(
    r"[ \t]*(?:§§? ?\d|\d{1,3}(?:\.\d{1,3})*[.)]?[ \t]|\(\d{1,3}[a-z]?\)[ \t]|\(?[a-z]\)[ \t])"
)
# A longer line may be wrapped in the middle of a sentence.
_MAX_HEADING_CHARS = 60
_MARK_ONLY = re.compile(r"(?:§ ?)?\d{1,3}(?:\.\d{1,3})*\.|[IVX]{1,5}\.")
_DATE_LINE = re.compile(rf"[ \t]*\d{{1,2}}\. {_MONTH}")
_NUMBERED = re.compile(r"[ \t]*\d{1,3}[.)] ")
# The library finds no end of a sentence after such a mark.
_BRACKETED = re.compile(r"\s*\([a-z\d]{1,4}\)\s+(?=\S)")


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
# Longer texts are sections of documents, which are split once; passages are split again and again.
_MAX_CACHED_CHARS = 10_000


def find_sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Return the span of every sentence in order, without the white space around it."""
    if len(text) > _MAX_CACHED_CHARS:
        return list(_find_sentence_spans.__wrapped__(text, language))
    return list(_find_sentence_spans(text, language))


@lru_cache(maxsize=8_192)
def find_breaks(text: str) -> tuple[int, ...]:
    """Return the places where a sentence ends with its line, whatever stands around the break."""
    found = {match.end() for match in _BREAK.finditer(text) if not _is_wrapped_date(text, match)}
    lines = list(_CLAUSE.finditer(text))
    marks = frozenset(match["mark"] for match in lines)
    found |= {match.end() for match in lines if match.end() and _begins_clause(text, match, marks)}
    return tuple(sorted(found))


def _get_line_before(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 : at].rstrip()


def _is_wrapped_date(text: str, match: re.Match[str]) -> bool:
    """Return True inside "am / 31. März"."""
    if not _DATE_LINE.match(text, match.end()):
        return False
    before = _get_line_before(text, match.start())
    return bool(before) and not _STOP.search(before) and not _NUMBERED.match(before)


def _begins_clause(text: str, match: re.Match[str], marks: frozenset[str]) -> bool:
    """Return True where a line begins with the mark of a clause, and not with a number or a
    reference in the middle of a sentence. `marks` begin the lines of the text."""
    line, word = _get_line_before(text, match.start()), match["word"]
    before = line[-_MAX_HEADING_CHARS:]
    if _AFTER_REFERENCE.match(word.lstrip("([„“\"'*_")) or _REFERRING.search(before):
        return False
    is_lower = word[0].islower()
    if _STOP.search(before):
        return not (match["exact"] and is_lower) or _COLON.search(before) is not None
    goes_on = _GOING_ON.search(before) is not None
    if match["exact"] and (is_lower or goes_on):
        return False
    is_heading = bool(_MARKED.match(line)) and len(line) <= _MAX_HEADING_CHARS
    return (is_heading and not goes_on) or not marks.isdisjoint(_list_siblings(match["mark"]))


_LAST_PART = re.compile(r"(\d+|[a-z])(?=[.)]?$)")


def _list_siblings(mark: str) -> list[str]:
    """Return the marks before and after one: (a) and (c) for (b), 2.1 and 2.3 for 2.2."""
    last = _LAST_PART.search(mark)
    if last is None or mark.startswith("§"):
        return []
    near = [int(last[1]) + n if last[1].isdigit() else chr(ord(last[1]) + n) for n in (-1, 1)]
    return [f"{mark[: last.start()]}{one}{mark[last.end() :]}" for one in near]


# Answering, citing and checking split the same passages, for one question after the other.
@lru_cache(maxsize=8_192)
def _find_sentence_spans(text: str, language: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    begin = 0
    find = find_breaks if len(text) <= _MAX_CACHED_CHARS else find_breaks.__wrapped__
    for end in (*find(text), len(text)):
        for start, stop in _split_segment(text, begin, end, language):
            span = _trim_span(text, start, stop)
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


def _split_segment(text: str, begin: int, end: int, language: str) -> Iterator[tuple[int, int]]:
    mark = _BRACKETED.match(text, begin, end)
    start = mark.end() if mark else begin
    for sentence in sentencex.get_sentence_boundaries(language, text[start:end]):
        first = start + sentence["start_index"]
        yield begin if first == start else first, start + sentence["end_index"]


def _goes_on(text: str, before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Return True when the library took a dot inside a sentence for its end."""
    if _TITLE.search(text, *before) or _SHORTENED.search(text, *before):
        return True
    # The library ends a sentence before each "(a)" at the start of a line.
    if _BRACKETED.match(text, *after) and not _STOP.search(text, *before):
        return True
    # "2." before "Price and payment" is not a sentence.
    if _MARK_ONLY.fullmatch(text, *before):
        line = text.rfind("\n", 0, before[0]) + 1
        return not text[line : before[0]].strip()
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
