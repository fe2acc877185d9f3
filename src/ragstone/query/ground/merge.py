"""Neighbours made one passage: hits that follow each other, and on request the chunks around each.

hits → fewer hits with longer chunks, each at the place of its best hit; still spans of a document.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ragstone.stages import Catalog
from ragstone.types import Chunk, Hit, Hits


@dataclass(slots=True)
class _Passage:
    """Chunks of a document that stand in a row, and the best hit among them."""

    rank: int
    hit: Hit
    first: Chunk
    last: Chunk


def merged(hits: Hits, catalog: Catalog, around: int) -> Hits:
    """Passages in the order of their best hits, with `around` more chunks on either side."""
    passages: list[_Passage] = []
    alone = _with_neighbours(hits, catalog, around)
    for document_id in dict.fromkeys(hit.chunk.document_id for hit in hits):
        mine = [one for one in alone if one.hit.chunk.document_id == document_id]
        passages += _joined(sorted(mine, key=lambda one: one.first.index))
    passages.sort(key=lambda one: one.rank)
    return tuple(_widened(one, catalog) for one in passages)


def _with_neighbours(hits: Hits, catalog: Catalog, around: int) -> list[_Passage]:
    """Every hit with its neighbours: the keys of a document's chunks are consecutive."""
    steps = range(-around, around + 1)
    known = catalog.chunks(sorted({h.chunk.key + step for h in hits for step in steps}))
    found = []
    for rank, hit in enumerate(hits):
        near = [known[key] for step in steps if (key := hit.chunk.key + step) in known]
        row = [hit.chunk, *(c for c in near if c.document_id == hit.chunk.document_id)]
        row.sort(key=lambda chunk: chunk.index)
        found.append(_Passage(rank, hit, row[0], row[-1]))
    return found


def _joined(passages: Iterable[_Passage]) -> list[_Passage]:
    found: list[_Passage] = []
    for one in passages:
        before = found[-1] if found else None
        if before is None or one.first.index > before.last.index + 1:
            found.append(one)
            continue
        before.last = max(before.last, one.last, key=lambda chunk: chunk.index)
        if one.rank < before.rank:
            before.rank, before.hit = one.rank, one.hit
    return found


def _widened(one: _Passage, catalog: Catalog) -> Hit:
    chunk = one.hit.chunk
    start, end = one.first.start, max(one.first.end, one.last.end)
    text = catalog.passage(chunk.document_id, start, end)
    if len(text) != end - start:  # not in this catalog, or replaced since it was found
        return one.hit
    return replace(one.hit, chunk=replace(chunk, text=text, start=start, end=end))
