"""Quote what the reader found: extract and sources → a draft, without a model.

A unit is quoted with what it can't be read without: an item with its lead-in, a lead-in with its
list or listing, a row under its column names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragstone.evidence import Draft, Evidence, Quote, ScoredUnit
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Embedder
from ragstone.query.ground.cite import Notation
from ragstone.reading.documents import needs_model
from ragstone.reading.layout import clean_for_reading
from ragstone.reading.markers import escape_markers, format_label
from ragstone.reading.outline import NEEDS_MODEL, write_outline
from ragstone.reading.reader import UnitReader
from ragstone.reading.units import Unit, list_units
from ragstone.text import LIST_MARK
from ragstone.threads import run_in_thread
from ragstone.types import NEAREST, NO_ANSWER, Prompt, Query, Source

_ITEM_MARK = re.compile(rf"[ \t]*({LIST_MARK})[ \t]+")
# Longer lists and tables are cut at the end of an item or a row.
_MAX_CHARS = 1_200
# A shorter piece, such as a date under a heading, is shown with its heading.
_MIN_WORDS_ALONE = 4


@dataclass(frozen=True, slots=True)
class QuotingProvider:
    """Answers with quotations of the sources."""

    name: ClassVar[str] = "extractive"
    embedder: Embedder
    """Chooses the key sentences of a summary."""
    reader: UnitReader

    @property
    def model(self) -> str:
        return "ragstone-reading"

    async def quote(self, query: Query, evidence: Evidence) -> Draft:
        """Return the answer to a query from its evidence."""
        draft = Draft(self.name, self.model)
        if (outline := query.outline) is not None:
            # Sentences are embedded: other questions go on meanwhile.
            pieces = write_outline(outline, evidence.sources, self.embedder)
            draft.text = await run_in_thread("models", "".join, pieces)
        elif needs_model(query.text):
            draft.text, draft.status = f"{NO_ANSWER}\n\n{NEEDS_MODEL}", "abstained"
        else:
            write_extract(draft, evidence, Notation(evidence.sources, query.citation_style))
        return draft

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        """Read the sources of a prompt, and yield the whole answer."""
        query = Query("", prompt.question, outline=prompt.outline)
        extract = await run_in_thread("models", self.reader.read, prompt.question, prompt.sources)
        yield (await self.quote(query, Evidence(query, prompt.sources, extract))).text


def build(context: PartContext) -> QuotingProvider:
    return QuotingProvider(add_vector_cache(context.reads_with), UnitReader())


def write_extract(draft: Draft, evidence: Evidence, notation: Notation) -> None:
    """Write what the reader found into a draft, as one of the three outcomes."""
    extract = evidence.extract
    draft.status = extract.outcome
    if draft.status == "abstained":
        draft.text = NO_ANSWER
        return
    is_near = draft.status == "near"
    opening = NEAREST if is_near else f"{extract.verdict}." if extract.verdict else ""
    pieces = [opening] if opening else []
    size = len(opening)
    quotes: list[Quote] = []
    for text, unit in write_units(extract.closest if is_near else extract.answers, notation):
        gap = 2 if pieces else 0
        quotes.append(Quote(text, unit.source, unit.start, unit.end, size + gap))
        # The marker stands after the text, but before a listing.
        head, fence, listing = text.partition("\n\n```")
        pieces.append(f"{head} {notation.format_markers([unit.source])}{fence}{listing}")
        size += gap + len(pieces[-1])
    draft.text, draft.quotes = "\n\n".join(pieces), tuple(quotes)


def write_units(
    found: Sequence[ScoredUnit], notation: Notation
) -> Iterator[tuple[str, ScoredUnit]]:
    """Yield the text of each unit, once, with the place that it rests on.

    Sources keep the order of their best units; within a source the text decides.
    """
    order = list(dict.fromkeys(unit.source for unit in found))
    said: list[str] = []
    for number in order:
        source = notation.sources[number - 1]
        units = list_units(source)
        places = {unit.start: unit for unit in found if unit.source == number}
        chosen = [at for at, unit in enumerate(units) if unit.start in places]
        for group in _group_by_list(chosen, units):
            text = write_group(group, units, source)
            if not any(text in other for other in said):
                said.append(text)
                yield text, max((places[units[at].start] for at in group), key=lambda u: u.score)


def _group_by_list(chosen: Sequence[int], units: Sequence[Unit]) -> Iterator[list[int]]:
    """Yield the units that are shown together: the items of one list."""
    taken: set[int] = set()
    for at in chosen:
        lead = units[at].lead
        same = [n for n in chosen if n == at or (lead is not None and units[n].lead == lead)]
        if at not in taken:
            yield same
        taken.update(same)


def write_group(group: Sequence[int], units: Sequence[Unit], source: Source) -> str:
    """Write units of one list, or one unit, with what they can't be read without."""
    first = units[group[0]]
    lead = first.lead
    if first.kind == "row":
        return _clean_line(first.sentence)
    if lead is None:
        places = [*group, *_list_led(group[0], units)]
    elif len(group) > 1:
        places = [lead, *_list_led(lead, units)]
    else:
        places = [lead, *group, *_list_led(group[0], units)]
    written = _join([units[at] for at in _cut(places, units)])
    if written.startswith("```") or len(written.split()) < _MIN_WORDS_ALONE:
        gap = "\n\n" if written.startswith("```") else " "
        written = f"{format_label(source.hit.chunk)}:{gap}{written}"
    return written


def _list_led(lead: int, units: Sequence[Unit]) -> list[int]:
    """List the units that another one leads to: the items of a list, a listing, a table."""
    led = [at for at, unit in enumerate(units) if unit.lead == lead]
    if not led and units[lead].text.endswith((":", "：")):
        for at in range(lead + 1, len(units)):
            if units[at].kind not in ("header", "row"):
                break
            led.append(at)
    return led


def _cut(places: Sequence[int], units: Sequence[Unit]) -> list[int]:
    kept: list[int] = []
    used = 0
    for at in places:
        used += units[at].end - units[at].start
        if kept and used > _MAX_CHARS:
            break
        kept.append(at)
    return kept


def _join(units: Sequence[Unit]) -> str:
    """Write prose on one line, items and rows on their own lines, listings as they are."""
    text = ""
    previous = ""
    for unit in units:
        if unit.kind == "code":
            text += ("\n\n" if text else "") + textwrap.dedent(unit.text).strip("\n")
            continue
        mark = _ITEM_MARK.match(unit.text) if unit.kind == "item" else None
        line = _clean_line(unit.text[mark.end() :] if mark else unit.text)
        if unit.kind in ("row", "header"):
            line = _clean_line(unit.text)
        elif mark and len(units) > 1:
            bullet = mark[1] if mark[1][0].isdigit() else "-"
            line = f"{bullet} {line}"
        own_line = unit.kind in ("row", "header") or mark is not None
        gap = " " if not own_line else "\n" if previous == unit.kind else "\n\n"
        text += (gap if text else "") + line
        if unit.kind == "header":
            text += "\n|" + " --- |" * (unit.text.strip().strip("|").count("|") + 1)
        previous = "row" if unit.kind == "header" else unit.kind
    return text.strip()


def _clean_line(text: str) -> str:
    return escape_markers(" ".join(clean_for_reading(text).split()))
