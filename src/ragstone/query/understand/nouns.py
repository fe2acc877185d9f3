"""Find the noun phrases of a question by its small words: what it is about, and what can be
exchanged in it.

question → `Phrase`s with their spans. No grammar is parsed: a phrase is what stands between verbs,
question words and prepositions. Languages other than English get coarser phrases.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from ragstone.index.analyze import FUNCTION_WORDS, STOP_WORDS
from ragstone.text import find_sentence_spans

_TOKEN = re.compile(r"[^\s?!,;:()\"“”«»¿¡]+|[?!,;:()]")


@cache
def load_words() -> dict[str, Any]:
    """Load the small words, by their use."""
    return tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))


def _read_set(name: str) -> frozenset[str]:
    return frozenset(load_words()[name].split())


PREPOSITIONS = _read_set("prepositions")
CLAUSE_STARTS = _read_set("clause_starts")
QUESTION_WORDS = _read_set("question_words")
AUXILIARIES = _read_set("auxiliaries")
DETERMINERS = _read_set("determiners")
PRONOUNS = _read_set("pronouns")
IMPERATIVES = _read_set("imperatives")
_MONTHS = _read_set("months")
_BREAKS = QUESTION_WORDS | AUXILIARIES | CLAUSE_STARTS | _read_set("verbs") | _read_set("others")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Hold a noun phrase at `text[start:end]`, with the preposition before it."""

    text: str
    start: int
    end: int
    preposition: str = ""

    @property
    def words(self) -> list[str]:
        return self.text.split()

    @property
    def is_name(self) -> bool:
        return any(is_name(word) for word in self.words)

    @property
    def is_time(self) -> bool:
        return all(w.casefold() in _MONTHS or w[:1].isdigit() for w in self.words)

    @property
    def head(self) -> str:
        """Return the word that the others describe: the last one before a number."""
        words = [word for word in self.words if not word[:1].isdigit()]
        return words[-1] if words else ""


def is_name(word: str) -> bool:
    """Return True for a name or an identifier: `Kite-4`, `kube-public`, `maxSurge`."""
    return (
        word[:1].isupper()
        or any(char.isupper() or char.isdigit() for char in word[1:])
        or bool(re.search(r"\w[-_./]\w", word))
    )


@lru_cache(maxsize=512)
def find_phrases(text: str) -> tuple[Phrase, ...]:
    """Return the noun phrases of a text in order; `of` begins a phrase of its own."""
    found: list[Phrase] = []
    begin: int | None = None
    end = 0
    preposition = before = last = ""

    def close() -> None:
        nonlocal begin
        if begin is not None and not _is_empty(text[begin:end]):
            found.append(Phrase(text[begin:end], begin, end, before))
        begin = None

    for number, match in enumerate(_TOKEN.finditer(text)):
        word = match[0].rstrip(".").casefold()
        is_first = number == 0
        after_how, last = last == "how", word
        if not word or not word[0].isalnum() or after_how or match[0] == "I":
            close()
            preposition = ""
        elif word in PREPOSITIONS:
            close()
            preposition = word
        elif word in DETERMINERS:
            close()
            begin, before, preposition = match.start(), preposition, ""
            end = match.end()
        elif (word in _BREAKS or word in PRONOUNS) and (is_first or not match[0][:1].isupper()):
            close()
            preposition = ""
        else:
            if begin is None:
                begin, before, preposition = match.start(), preposition, ""
            end = match.start() + len(match[0].rstrip("."))
    close()
    return tuple(found)


def _is_empty(text: str) -> bool:
    return all(word.casefold() in DETERMINERS for word in text.split())


def find_chains(text: str) -> list[Phrase]:
    """Return each phrase together with those that `of`, `in` or `for` hang on it."""
    phrases = find_phrases(text)
    found: list[Phrase] = []
    for at, phrase in enumerate(phrases):
        end = phrase.end
        for later in phrases[at + 1 :]:
            gap = text[end : later.start].strip().casefold()
            if gap not in PREPOSITIONS:
                break
            end = later.end
            found.append(Phrase(text[phrase.start : end], phrase.start, end, phrase.preposition))
    return found


_ASKS_ATTRIBUTE = re.compile(
    r"^(?:and |so |but )?(?:what|which|who|how (?:much|many)|"
    r"was|wer|welche[rs]?|cuál|qué|quel(?:le)?|qual[ei]?)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def find_subject(question: str) -> str:
    """Return what a question is about: in "What is the price of the filter?" the filter."""
    phrases = [phrase for phrase in find_phrases(question) if not phrase.is_time]
    if not phrases:
        return ""
    chain = _find_of_chain(question, phrases)
    if chain is not None:
        head, _, rest = chain.partition(" of ")
        return rest if _ASKS_ATTRIBUTE.match(question) else f"{head} of {rest}"
    if named := [phrase for phrase in phrases if phrase.is_name]:
        return named[0].text
    marked = [one for one in phrases if one.words[0].casefold() in DETERMINERS]
    return (marked or phrases)[0].text


def _find_of_chain(question: str, phrases: Sequence[Phrase]) -> str | None:
    """Return the first "X of Y"; None if there is none, or one like "instead of Y"."""
    for before, after in itertools.pairwise(phrases):
        if after.preposition == "of" and before.head not in ("instead", "number", "sorts", "kinds"):
            return question[before.start : after.end]
    return None


_AMOUNT = re.compile(r"[€$£¥]?[\d.,]+[€$£¥%]?|[€$£¥]|EUR|USD|GBP|CHF|JPY|CNY|SEK|NOK|DKK|PLN|CZK")


def list_names(text: str, *, without: Sequence[str] = ()) -> list[str]:
    """Return the names of a text in order, each once, without amounts and the names of others."""
    known = {word.casefold() for other in without for word in re.findall(r"[\w.-]+", other)}
    names: dict[str, None] = {}
    for phrase in find_phrases(text):
        words = [w for w in phrase.words if is_name(w) and w.casefold() not in DETERMINERS]
        first_of_sentence = phrase.start == 0 or text[: phrase.start].rstrip()[-1:] in ".!?"
        if not words or (first_of_sentence and len(words) == 1 and words[0].isalpha()
                         and words[0][1:].islower() and len(phrase.words) == 1):  # fmt: skip
            continue
        name = " ".join(words)
        is_amount = any(map(_AMOUNT.fullmatch, phrase.words))
        if not is_amount and not {word.casefold() for word in words} & known:
            names.setdefault(name)
    return list(names)


_FOREIGN = (
    frozenset().union(*(words for name, words in FUNCTION_WORDS.items() if name != "english"))
    - FUNCTION_WORDS["english"]
)
_LATIN = re.compile(r"[a-zà-öø-ɏ]", re.IGNORECASE)
_ENOUGH_WORDS = 4


def is_surely_english(text: str) -> bool | None:
    """Tell by most of its small words whether a text is English; None for a short or unclear one.

    Another script is told by a single word.
    """
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+", text)]
    if words and not any(map(_LATIN.search, words)):
        return False
    if len(words) < _ENOUGH_WORDS:
        return None
    english = sum(word in FUNCTION_WORDS["english"] for word in words)
    foreign = sum(word in _FOREIGN for word in words)
    return None if english == foreign else english > foreign


def is_english(text: str) -> bool | None:
    """Tell by its small words whether a text is English; None if it has none of any language."""
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+", text)]
    if any(word in STOP_WORDS for word in words):
        return True
    known = PREPOSITIONS | QUESTION_WORDS | AUXILIARIES | DETERMINERS | PRONOUNS
    return False if any(word in known for word in words) else None


WHICH = "Which of these do you mean?"
"""Ends an answer that names several choices."""
_BOLD_LINE = re.compile(r"^\*\*([^*\n]+)\*\*$", re.MULTILINE)
_BULLET = re.compile(
    r"(?:^|\n|\s)(?:[-*•]|\d{1,2}[.)])\s+(.+?)(?=(?:\s(?:[-*•]|\d{1,2}[.)])\s)|\n|$)"
)


# A row of a table as it is quoted: "Halden reflector: Aperture 1,200 mm, Mount fork"
_ROW = re.compile(r"([^\W\d_][^:.|\n]{1,60}):\s[^:]*,\s")


def list_labels(answer: str) -> list[str]:
    """Return the labels of the choices that an answer offers."""
    return _BOLD_LINE.findall(answer)


def list_items(answer: str, question: str) -> list[str]:
    """Return the things that an answer lists: choices, bullets, rows or an enumeration.

    Without any, those that the question enumerates.
    """
    headings = [one.partition(" (")[0] for one in list_labels(answer)]
    if len(headings) > 1:  # the choices of an unclear question
        return headings
    bullets = [item.strip(" .;,") for item in _BULLET.findall(answer)]
    if len(bullets) > 1:
        return [" ".join(item.split(":")[0].split()[:6]) for item in bullets]
    sentences = [answer[start:end] for start, end in find_sentence_spans(answer)]
    rows = [match[1] for one in sentences if (match := _ROW.match(one))]
    if len(rows) > 1:
        return rows
    listed = [_split_enumeration(one) for one in sentences]
    return max(listed, key=len, default=[]) or _split_enumeration(question)


def _split_enumeration(sentence: str) -> list[str]:
    """Return the parts of "A, B and C"; empty if the sentence lists nothing."""
    match = re.search(
        r"((?:[^,;:.()]{2,50},\s+)*[^,;:.()]{2,50}),?\s+(?:and|or|und|oder|y|et|e|en|и)\s+([^,;:.()]{2,50})",
        sentence,
    )
    if match is None:
        return []
    parts = [part.strip() for part in match[1].split(",")] + [match[2].strip()]
    items = []
    for at, part in enumerate(parts):
        inside = find_phrases(part)
        if not inside and len(part.split()) == 1:
            items.append(part)
            continue
        if not inside:
            return []
        begin = inside[-1 if at == 0 else 0]
        chains = [one for one in find_chains(part) if one.start == begin.start]
        items.append(max([begin, *chains], key=lambda one: len(one.text)).text)
    # "R and 800": letters and numbers are not things that one can ask about.
    return items if all(re.search(r"[^\W\d_]{2}", item) for item in items) else []
