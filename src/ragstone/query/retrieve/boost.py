"""Semantic hits raised by the question's exact terms: what is left when keyword search is out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstone.stores.analyze import terms


def keyword_boost(
    similarities: Mapping[int, float],
    texts: Mapping[int, str],
    wanted: Sequence[str],
    *,
    boost: float,
) -> dict[int, float]:
    """similarity + boost · (share of the wanted terms that the text holds), for each id."""
    distinct = set(wanted)
    if not distinct:
        return dict(similarities)
    return {
        key: similarity + boost * len(distinct & set(terms(texts.get(key, "")))) / len(distinct)
        for key, similarity in similarities.items()
    }
