"""Match the words of a request with the documents of the catalog, and group documents.

subject and entries → the documents that are meant, best first. Names, folders, titles and metadata
are compared; texts are not read.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ragstone.index.analyze import STOP_WORDS, extract_query_terms, extract_terms
from ragstone.outline import DocumentEntry, DocumentGroup
from ragstone.reading.documents import find_document_kinds, list_kind_words, list_light_terms
from ragstone.reading.summary import name_document

_WORD = re.compile(r"[^\W_]+")
# Folders, and what stands for them in names of exported pages: `docs__vision#limits.md`.
_SEPARATOR = re.compile(r"/|__+|#")
_ENDING = re.compile(r"\.\w{1,5}$")
# Documents that introduce a folder.
_FIRST_PAGES = frozenset(
    {"index", "readme", "overview", "introduction", "intro", "welcome", "home"}
)
# A request is about the documents that hold this share of its words, weighted by their rarity.
MIN_COVERAGE = 0.8
_MAX_GROUPS = 10
_GROUP_DEPTH = 3
_LISTED_IN_GROUP = 6
# A word in more of the titles than this says nothing of one of them.
_MAX_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """Hold how well a document fits a request."""

    entry: DocumentEntry
    coverage: float
    """The share of the request's words that describe the document."""
    precision: float
    """The share of the words of its title or its name that the request holds."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Hold what a request is about: each item is a set of terms, one of which must be there."""

    items: tuple[frozenset[str], ...]


def read_subject(text: str, *, by_kind: bool = False, drops_light: bool = True) -> Subject:
    """Read the words of a subject; on request a kind of document stands for all its names."""
    kinds = [kind for kind in find_document_kinds(text) if by_kind and kind != "any"]
    items = dict.fromkeys(_list_kind_words(kind) for kind in kinds)
    named = frozenset(t for words in items for word in words for t in _list_word_terms(word[1:]))
    terms = [term for term in extract_terms(text) if term not in named]
    light = list_light_terms() if drops_light else frozenset[str]()
    useful = [term for term in terms if term not in light]
    for term in useful or ([] if by_kind else terms):
        items[frozenset({term})] = None
    return Subject(tuple(items))


@cache
def _list_kind_words(kind: str) -> frozenset[str]:
    return frozenset(_mark_word(word) for word in list_kind_words(kind))


def _mark_word(word: str) -> str:
    """Mark a whole word, to tell it from a term: "lease" and "leasing" have the same term."""
    return f"={word.casefold()}"


def match_documents(subject: Subject, entries: Sequence[DocumentEntry]) -> list[DocumentMatch]:
    """Return the documents that hold a word of the subject, best first."""
    described = [_list_entry_terms(one) for one in entries]
    weights = [
        math.log(1 + (len(entries) + 1) / (sum(bool(item & terms) for terms in described) + 0.5))
        for item in subject.items
    ]
    total = sum(weights)
    found = []
    for entry, terms in zip(entries, described, strict=True):
        held = [w for item, w in zip(subject.items, weights, strict=True) if item & terms]
        if held:
            precision = max(
                _measure_precision(subject, entry.title),
                _measure_precision(subject, _ENDING.sub("", entry.name.rsplit("/", 1)[-1])),
            )
            found.append(DocumentMatch(entry, sum(held) / total, precision))
    return sorted(found, key=lambda one: (-round(one.coverage, 6), -one.precision, one.entry.name))


def choose_documents(matches: Sequence[DocumentMatch], limit: int) -> list[DocumentMatch]:
    """Choose the documents that a request means; none if too few words fit or too many documents.

    A document whose title or name is the request itself is meant alone, unless it is shorter than
    the others that fit: then it is only their first page.
    """
    if not matches or matches[0].coverage < MIN_COVERAGE:
        return []
    best = [one for one in matches if one.coverage >= matches[0].coverage - 1e-6]
    exact = [one for one in best if one.precision >= 0.99]
    mean = sum(one.entry.chunk_count for one in best) / len(best)
    is_whole = sum(one.entry.chunk_count for one in exact) >= mean
    chosen = exact if 0 < len(exact) <= limit and is_whole else best
    return chosen if len(chosen) <= limit else []


def measure_coverage(subject: Subject, text: str) -> float:
    """Return the share of the subject's words that a text holds."""
    terms = _list_terms(text)
    return sum(bool(item & terms) for item in subject.items) / (len(subject.items) or 1)


def _measure_precision(subject: Subject, name: str) -> float:
    """Return the share of the words of a name that belong to the subject."""
    words = [w for w in _WORD.findall(name.casefold()) if w not in STOP_WORDS]
    hits = sum(any(item & _list_word_terms(word) for item in subject.items) for word in words)
    return hits / len(words) if words else 0.0


def _list_terms(text: str) -> frozenset[str]:
    words = dict.fromkeys(_WORD.findall(text))
    return frozenset().union(*(_list_word_terms(word) for word in words))


# One request reads all entries up to three times, and the next one reads the same again.
@lru_cache(maxsize=10_000)
def _list_entry_terms(entry: DocumentEntry) -> frozenset[str]:
    return _list_terms(f"{entry.name}\n{entry.title}\n{entry.labels}")


@lru_cache(maxsize=65_536)
def _list_word_terms(word: str) -> frozenset[str]:
    return frozenset((*extract_query_terms(word), _mark_word(word)))


def group_documents(entries: Sequence[DocumentEntry]) -> tuple[DocumentGroup, ...]:
    """Group documents by folder; without folders, by the words that their titles share."""
    if len(entries) <= _MAX_GROUPS // 2:
        return tuple(DocumentGroup(name_document(one), 1, (one,)) for one in entries)
    groups = _group_by_folder(entries) or _group_by_word(entries)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    kept, rest = ordered[:_MAX_GROUPS], ordered[_MAX_GROUPS:]
    others = [entry for _, group in rest for entry in group] + groups.get("", [])
    found = [_make_group(name, group) for name, group in kept if name]
    return (*found, *([_make_group("", others)] if others else []))


def _make_group(name: str, entries: Sequence[DocumentEntry]) -> DocumentGroup:
    """Make a group whose first document introduces it, or is its longest."""
    ordered = sorted(entries, key=lambda one: (not _is_first_page(one), -one.chunk_count, one.name))
    return DocumentGroup(name, len(entries), tuple(ordered[:_LISTED_IN_GROUP]))


def _is_first_page(entry: DocumentEntry) -> bool:
    stem = _ENDING.sub("", entry.name.rsplit("/", 1)[-1]).strip("_").casefold()
    return stem in _FIRST_PAGES


def _group_by_folder(entries: Sequence[DocumentEntry]) -> dict[str, list[DocumentEntry]]:
    """Group by the folders at the first depth that tells documents apart; empty without any."""
    paths = [tuple(_SEPARATOR.split(one.name)[:-1]) for one in entries]
    shared = 0
    while all(len(p) > shared for p in paths) and len({p[shared] for p in paths}) == 1:
        shared += 1
    for depth in range(1, _GROUP_DEPTH + 1):
        groups: dict[str, list[DocumentEntry]] = defaultdict(list)
        for entry, path in zip(entries, paths, strict=True):
            groups["/".join(path[shared : shared + depth])].append(entry)
        largest = max(len(group) for group in groups.values())
        if len(groups) > 2 and largest <= _MAX_SHARE * len(entries):
            return _shorten_names(groups)
    return {}


def _shorten_names(groups: dict[str, list[DocumentEntry]]) -> dict[str, list[DocumentEntry]]:
    """Name folders by their last part, where no two are the same."""
    short = [name.rsplit("/", 1)[-1] for name in groups]
    is_clear = len(set(short)) == len(short)
    return dict(zip(short, groups.values(), strict=True)) if is_clear else groups


def _group_by_word(entries: Sequence[DocumentEntry]) -> dict[str, list[DocumentEntry]]:
    """Take the word that most titles and names share, then that of the remaining documents."""
    words = {
        one.id: dict.fromkeys(
            w
            for w in _WORD.findall(f"{_ENDING.sub('', one.name)} {one.title}".casefold())
            if len(w) > 2 and not w.isdigit() and w not in STOP_WORDS
        )
        for one in entries
    }
    counts = Counter(word for own in words.values() for word in own)
    useful = {w for w, n in counts.items() if n <= _MAX_SHARE * len(entries)}
    left = list(entries)
    groups: dict[str, list[DocumentEntry]] = {}
    while left and len(groups) < _MAX_GROUPS - 1:
        now = Counter(w for one in left for w in words[one.id] if w in useful)
        word, count = min(now.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
        if count < 2:
            break
        groups[word] = [one for one in left if word in words[one.id]]
        left = [one for one in left if word not in words[one.id]]
    return groups | ({"": left} if left else {})
