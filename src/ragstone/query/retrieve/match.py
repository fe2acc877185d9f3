"""Find the documents whose names hold the words of a request, and group documents by folder.

Titles, file names and metadata are compared; texts are not read.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache

from ragstone.index.analyze import STOP_WORDS, extract_query_terms
from ragstone.outline import DocumentEntry, DocumentGroup
from ragstone.reading.outline import count_shared, name_document

_WORD = re.compile(r"[^\W_]+")
# Folders, and what stands for them in names of exported pages: `docs__vision#limits.md`.
_SEPARATOR = re.compile(r"/|__+|#")
# A document is named by so much of the words that are in any name, weighted by their rarity.
_MIN_COVERAGE = 0.8
# A request names a document with at least this share of its words; with fewer the search decides.
_MIN_NAMED = 0.5
_MAX_GROUPS, _GROUP_DEPTH, _LISTED_IN_GROUP = 10, 3, 6
# Folders are opened as long as one holds more than this share of the documents.
_MAX_SHARE = 0.6


def find_named(
    terms: Collection[str], entries: Sequence[DocumentEntry], least: float = _MIN_NAMED
) -> list[DocumentEntry]:
    """Return the documents whose title or file name holds the terms that any of them holds.

    Of several those are returned whose names have the fewest other words.
    """
    words = [_list_own_words(entry) for entry in entries]
    held = [set(terms) & set[str]().union(*own) for own in words]
    known = set[str]().union(*held)
    if not known or len(known) < least * len(terms):
        return []
    best = _find_best(held)
    others = {at: sum(not word & held[at] for word in words[at]) for at in best}
    fewest = min(others.values(), default=0)
    return [entries[at] for at in best if others[at] == fewest]


def find_described(terms: Collection[str], entries: Sequence[DocumentEntry]) -> list[DocumentEntry]:
    """Return the documents whose names, folders or metadata hold the terms that any of them
    holds."""
    held = [
        set(terms) & set[str]().union(*_list_words(f"{entry.name}\n{entry.title}\n{entry.labels}"))
        for entry in entries
    ]
    return [entries[at] for at in _find_best(held)]


def find_two(terms: Sequence[str], entries: Sequence[DocumentEntry]) -> list[DocumentEntry]:
    """Return the two documents that the terms name, each by other ones; empty for fewer or more."""
    held = [frozenset(terms) & frozenset[str]().union(*_list_own_words(entry)) for entry in entries]
    most = [own for own in set(held) if own and not any(own < other for other in set(held))]
    named = [at for at, own in enumerate(held) if own in most]
    if len(named) != 2 or held[named[0]] == held[named[1]]:
        return []
    return [entries[at] for at in sorted(named, key=lambda at: min(map(terms.index, held[at])))]


def _find_best(held: Sequence[Collection[str]]) -> list[int]:
    """Return the places of the sets that hold most of all terms; empty if none holds enough."""
    weights = weigh_terms(set[str]().union(*held), held)
    scores = [sum(weights[term] for term in own) for own in held]
    best = max(scores, default=0.0)
    if best < _MIN_COVERAGE * sum(weights.values()) or not best:
        return []
    return [at for at, score in enumerate(scores) if score > best - 1e-6]


def weigh_terms(terms: Collection[str], texts: Sequence[Collection[str]]) -> dict[str, float]:
    """Weigh terms by their rarity in texts."""
    counts = Counter(term for held in texts for term in held)
    return {term: math.log(1 + (len(texts) + 1) / (counts[term] + 0.5)) for term in terms}


def _list_own_words(entry: DocumentEntry) -> tuple[frozenset[str], ...]:
    return _list_words(f"{_split_path(entry.name)[-1]}\n{entry.title}")


def list_terms(text: str) -> set[str]:
    """List the terms of a text in every language that its words may be in."""
    return set[str]().union(*_list_words(text))


def _list_words(text: str) -> tuple[frozenset[str], ...]:
    words = dict.fromkeys(_WORD.findall(text.casefold()))
    return tuple(_list_word_terms(word) for word in words if word not in STOP_WORDS)


@lru_cache(maxsize=65_536)
def _list_word_terms(word: str) -> frozenset[str]:
    return frozenset(extract_query_terms(word))


def _split_path(name: str) -> list[str]:
    """Split a name into folders and the file name without its ending."""
    *folders, last = [part for part in _SEPARATOR.split(name) if part] or [name]
    stem, dot, ending = last.rpartition(".")
    return [*folders, stem if dot and len(ending) < 6 else last]


def group_documents(entries: Sequence[DocumentEntry]) -> tuple[DocumentGroup, ...]:
    """Group documents by the first folders that tell them apart; without folders each is alone."""
    paths = [_split_path(entry.name)[:-1] for entry in entries]
    shared = count_shared(paths)
    groups: dict[str, list[DocumentEntry]] = defaultdict(list)
    for depth in range(shared + 1, shared + 1 + _GROUP_DEPTH):
        groups.clear()
        for entry, path in zip(entries, paths, strict=True):
            groups["/".join(path[shared:depth])].append(entry)
        if len(groups) > 2 and max(map(len, groups.values())) <= _MAX_SHARE * len(entries):
            break
    if len(groups) <= 2 or len(entries) <= _MAX_GROUPS // 2:
        groups = defaultdict(list, {entry.id: [entry] for entry in entries})
    ordered = sorted(groups.items(), key=lambda item: (not item[0], -len(item[1]), item[0]))
    kept = [_make_group(name, own) for name, own in ordered[:_MAX_GROUPS]]
    others = [entry for _, own in ordered[_MAX_GROUPS:] for entry in own]
    return (*kept, *([_make_group("", others)] if others else []))


def _make_group(name: str, entries: Sequence[DocumentEntry]) -> DocumentGroup:
    """Make a group with its longest document in front."""
    longest = sorted(entries, key=lambda entry: (-entry.chunk_count, entry.name))
    name = name if len(entries) > 1 or not name else name_document(entries[0])
    return DocumentGroup(name, len(entries), tuple(longest[:_LISTED_IN_GROUP]))
