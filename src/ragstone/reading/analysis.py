"""Analyze a passage once for all questions: clean text, units, terms, traits of each sentence.

source → `PassageAnalysis`. Nothing here depends on a question, so an analysis is kept: in memory
for the last passages, and for all passages that were read in a file that every process shares.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from ragstone.derived import DerivedStore, build_key, hash_modules
from ragstone.index.analyze import STOP_WORDS, count_words, extract_terms, terms_memo
from ragstone.protocols import Embedder
from ragstone.reading.layout import LEAD_IN, CleanText, Span, clean_for_reading, clean_memo
from ragstone.reading.units import (
    Unit,
    find_instructions,
    has_instructions,
    has_words_of_instructions,
    instructions_memo,
    split_units,
)
from ragstone.types import Hit, Source

SOURCES_READ = 10
# About 10 kB each.
_MAX_IN_MEMORY = 3_000
_MAX_COUNTS = 20_000
_MODULES = (
    "ragstone.reading.analysis", "ragstone.reading.layout", "ragstone.reading.units",
    "ragstone.index.analyze", "ragstone.text",
)  # fmt: skip
_ENDS = re.compile(r"[.!?…:;。！？：；｡।۔؟؛]['\"”’)\]」』）]*$")
WORD = re.compile(r"[^\W_]+(?:[.\-'’][^\W_]+)*")
_POINTS_BACK = re.compile(
    r"^(?:\d+(?:\.\d+)*\.? )?(?:it|its|this|that|these|those|they|their|he|his|she|her|such|"
    r"the latter|after that|"
    r"otherwise|however|but|so|then|there|for each|es|er|sie|dies\w*|danach)\b",
    re.IGNORECASE,
)
# The number of a clause answers nothing, but looks like an amount.
_NUMBERING = re.compile(r"^(?:§\s*)?\d{1,3}(?:\.\d{1,3})+\.?\s+")
# Says where the answer is, and not what it is.
_REFERS = re.compile(
    r"^(?:please )?(?:see|refer to|consult|visit|read) |\b(?:please )?refer to (?:the|our|this)\b"
    r"|\bfor (?:more|further|additional|details|instructions|information)\b.{0,60}"
    r"\b(?:see|refer|visit|read)\b|\b(?:see|learn more|read more) (?:about|in|at|here)\b",
    re.IGNORECASE,
)
# A step, a command or a lead-in to one.
_INSTRUCTS = re.compile(
    r"^\d{1,3}[.)] |`[^`]+ [^`]+`|^\s*\$ |:$|\b(?:run|use|using|click|press|select|choose|open|"
    r"enter|type|call|send|turn|set|add|create|remove|install) (?:the|a|an|on|off|your|`)",
    re.IGNORECASE,
)

Terms: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class UnitTraits:
    """Hold what the form of a sentence says of it."""

    is_sentence: bool
    points_back: bool
    """It can only be understood after the sentence before it."""
    leads_in: bool
    refers: bool
    instructs: bool
    is_suspicious: bool
    """It reads like an instruction to a model."""


@dataclass(frozen=True, slots=True)
class AnalyzedUnit:
    """Hold a sentence or row of a passage; its offsets are into the clean text."""

    unit: Unit
    sequence: tuple[str, ...]
    """The terms of its text, in order."""
    terms: Terms
    """Its terms; a row has those of its header too."""
    context_terms: Terms
    """The terms of the sentence, its neighbours and the headings over it."""
    words: tuple[str, ...]
    length: int
    """How many words it has."""
    traits: UnitTraits


@dataclass(frozen=True, slots=True)
class ReadableText:
    """Hold a passage as the reading model reads it, and where each of its units stands in it."""

    text: str
    units: tuple[Span, ...]


@dataclass(frozen=True)
class PassageAnalysis:
    """Hold what every question asks of a passage."""

    clean: CleanText
    heading: str
    """What names the passage: for a table its title and caption, then the headings."""
    terms: Terms
    title_terms: Terms
    """The terms of the headings over the passage and of the document's name."""
    instructions: tuple[Span, ...]
    """The places of the stored text that read like instructions to a model."""
    units: tuple[AnalyzedUnit, ...]

    @cached_property
    def readable(self) -> ReadableText:
        """Return the text for the reading model: headings, sentences, rows under their heads."""
        pieces = [f"{self.heading}\n"] if self.heading else []
        size = sum(map(len, pieces))
        places: list[Span] = []
        position = 0
        for one in self.units:
            unit = one.unit
            between = "\n" if unit.header else self.clean.text[position : unit.start]
            said = _NUMBERING.sub("", unit.sentence)
            pieces += [between, said]
            places.append((size + len(between), size + len(between) + len(said)))
            size = places[-1][1]
            position = unit.end
        return ReadableText("".join(pieces), tuple(places))


def compute_analysis(source: Source) -> PassageAnalysis:
    """Analyze a passage."""
    chunk = source.hit.chunk
    clean = clean_for_reading(source.text)
    titles = (*chunk.heading_path, chunk.context, chunk.document_name)
    title_terms = frozenset(extract_terms(" \n ".join(titles)))
    names = (chunk.context, " > ".join(chunk.heading_path[-2:]))
    return PassageAnalysis(
        clean,
        "\n".join(one for one in names if one),
        frozenset(extract_terms(chunk.contextual_text)),
        title_terms,
        tuple(find_instructions(source.text)),
        tuple(_analyze_units(clean.text, split_units(clean.text, chunk.table_header), title_terms)),
    )


def _analyze_units(
    text_of_all: str, units: Sequence[Unit], title_terms: Terms
) -> Iterable[AnalyzedUnit]:
    has_words = has_words_of_instructions(text_of_all)
    for at, unit in enumerate(units):
        before = units[at - 1].text if at else ""
        after = units[at + 1].text if at + 1 < len(units) else ""
        text = unit.text
        sequence = tuple(extract_terms(text))
        terms = frozenset(extract_terms(" \n ".join((text, *unit.header))))
        around = frozenset(extract_terms(f"{before} \n {after}"))
        yield AnalyzedUnit(
            unit,
            sequence,
            terms,
            terms | around | title_terms,
            tuple(word for word in WORD.findall(text.casefold()) if word not in STOP_WORDS),
            count_words(text),
            UnitTraits(
                is_sentence=bool(_ENDS.search(text)) or bool(unit.header),
                points_back=bool(_POINTS_BACK.match(text)),
                leads_in=bool(LEAD_IN.search(text)),
                refers=bool(_REFERS.search(text)),
                instructs=bool(_INSTRUCTS.search(text)),
                is_suspicious=has_instructions(text, has_words=has_words),
            ),
        )


_Key: TypeAlias = tuple[object, ...]


def _get_key(source: Source) -> _Key:
    """Return everything that an analysis depends on."""
    one = source.hit.chunk
    return (
        source.text,
        one.text,
        one.heading_path,
        one.context,
        one.document_name,
        one.table_header,
    )


_recent: OrderedDict[_Key, PassageAnalysis] = OrderedDict()
_recent_lock = threading.Lock()


def analyze_passage(source: Source) -> PassageAnalysis:
    """Return the analysis of a passage, from memory if it was needed before."""
    key = _get_key(source)
    with _recent_lock:
        known = _recent.get(key)
        if known is not None:
            _recent.move_to_end(key)
            return known
    analysis = compute_analysis(source)
    _remember(key, analysis)
    return analysis


def _remember(key: _Key, analysis: PassageAnalysis) -> None:
    with _recent_lock:
        _recent[key] = analysis
        while len(_recent) > _MAX_IN_MEMORY:
            _recent.popitem(last=False)


class PassageKeeper:
    """Bring analyses from the shared file into memory, and keep new ones in it.

    It counts tokens too: every prompt counts those of its passages.
    """

    def __init__(self, embedder: Embedder, derived: DerivedStore | None = None) -> None:
        self._embedder = embedder
        self._derived = derived
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def count_tokens(self, text: str) -> int:
        count = self._counts.get(text)
        if count is None:
            count = len(self._embedder.token_starts(text))
            self._set_count(text, count)
        return count

    def _set_count(self, text: str, count: int) -> None:
        with self._lock:
            self._counts[text] = count
            while len(self._counts) > _MAX_COUNTS:
                self._counts.popitem(last=False)

    def prepare(self, hits: Iterable[Hit]) -> None:
        """Make the analyses of whole passages ready, and count their tokens."""
        sources = [Source(0, hit, hit.chunk.text) for hit in hits]
        with _recent_lock:
            new = [s for s in sources if s.text not in self._counts or _get_key(s) not in _recent]
        if self._derived is None or not new:
            return
        version = hash_modules(*_MODULES)
        keys = {build_key(version, self._embedder.name, _get_key(one)): one for one in new}
        kept = self._derived.get_many(list(keys))
        made: list[tuple[bytes, Source, PassageAnalysis, int]] = []
        for key, source in keys.items():
            record = _load_record(kept.get(key), source)
            if record is None:
                made.append((key, source, analyze_passage(source), self.count_tokens(source.text)))
            else:
                _remember(_get_key(source), record[0])
                _put_in_memos(source, record[0])
                self._set_count(source.text, record[1])
        if made:
            self._derived.put_later(
                lambda: [
                    (key, source.hit.chunk.document_id, _dump_record(analysis, tokens))
                    for key, source, analysis, tokens in made
                ]
            )


def _dump_record(analysis: PassageAnalysis, tokens: int) -> bytes:
    units = [
        [
            one.unit.start,
            one.unit.end,
            one.unit.header,
            one.sequence,
            sorted(one.terms),
            sorted(one.context_terms),
            one.words,
            one.length,
            [int(getattr(one.traits, name)) for name in UnitTraits.__slots__],
        ]
        for one in analysis.units
    ]
    record = [
        tokens,
        analysis.clean.text,
        analysis.clean.runs,
        analysis.heading,
        sorted(analysis.terms),
        sorted(analysis.title_terms),
        analysis.instructions,
        units,
    ]
    return json.dumps(record, separators=(",", ":")).encode()


def _load_record(content: bytes | None, source: Source) -> tuple[PassageAnalysis, int] | None:
    """Return the analysis and the count of tokens in a record; None if it cannot be used."""
    if content is None:
        return None
    try:
        tokens, text, runs, heading, terms, title_terms, instructions, units = json.loads(content)
        clean = CleanText(source.text if text == source.text else text, _to_spans(runs))
        analysis = PassageAnalysis(
            clean,
            heading,
            frozenset(terms),
            frozenset(title_terms),
            _to_spans(instructions),
            tuple(_load_unit(text, *one) for one in units),
        )
        return analysis, int(tokens)
    except (ValueError, TypeError):
        return None


def _put_in_memos(source: Source, analysis: PassageAnalysis) -> None:
    """Spare the checks the parts that they compute by themselves."""
    clean_memo.put(source.text, analysis.clean)
    instructions_memo.put(source.text, analysis.instructions)
    for one in analysis.units:
        terms_memo.put(one.unit.text, one.sequence)
        if not one.traits.is_suspicious:
            instructions_memo.put(one.unit.text, ())


def _to_spans(pairs: Iterable[Sequence[int]]) -> tuple[Span, ...]:
    return tuple((start, end) for start, end in pairs)


def _load_unit(
    text: str,
    start: int,
    end: int,
    header: Sequence[str],
    sequence: Sequence[str],
    terms: Sequence[str],
    context_terms: Sequence[str],
    words: Sequence[str],
    length: int,
    traits: Sequence[Any],
) -> AnalyzedUnit:
    return AnalyzedUnit(
        Unit(start, end, text[start:end], tuple(header)),
        tuple(sequence),
        frozenset(terms),
        frozenset(context_terms),
        tuple(words),
        length,
        UnitTraits(*map(bool, traits)),
    )
