"""Shorter sources: the sentences that matter least for the question are left out of the prompt.

question and texts → for each text the spans that stay. The source itself keeps its whole text, so
that citations and checks still point into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.sentences import sentence_spans
from ragstone.stages import Embedder
from ragstone.stores.analyze import terms

_GAP = " … "


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a text: whole sentences in their order, or all of it."""

    text: str
    spans: tuple[tuple[int, int], ...]
    is_whole: bool = False

    @property
    def shown(self) -> str:
        if self.is_whole:
            return self.text
        pieces: list[str] = []
        previous = 0
        for start, end in self.spans:
            gap = self.text[previous:start]
            pieces.append(gap if not gap.strip() else _GAP.lstrip() if not previous else _GAP)
            pieces.append(self.text[start:end])
            previous = end
        return "".join(pieces).strip()

    def without_last(self) -> Kept:
        spans = self.spans[:-1]
        return Kept(self.text[: spans[-1][1]] if spans else "", spans)


def whole(text: str) -> Kept:
    return Kept(text, ((0, len(text)),) if text else (), is_whole=True)


def kept_sentences(
    question: str, texts: Sequence[str], embedder: Embedder, ratio: float
) -> list[Kept]:
    """The sentences with most to do with the question, until `ratio` of all text is reached.

    Every text keeps its best sentence: a source without one would have no number to cite.
    """
    spans = [sentence_spans(text) for text in texts]
    places = [(at, span) for at, found in enumerate(spans) for span in found]
    if not places:
        return [whole(text) for text in texts]
    scores = _scores(question, [texts[at][start:end] for at, (start, end) in places], embedder)
    order = sorted(range(len(places)), key=lambda place: (-scores[place], place))
    budget = ratio * sum(len(text) for text in texts)
    kept: dict[int, list[tuple[int, int]]] = {}
    used = 0
    for place in order:
        at, (start, end) = places[place]
        if at in kept and used + end - start > budget:
            continue
        kept.setdefault(at, []).append((start, end))
        used += end - start
    return [
        whole(text) if len(kept.get(at, [])) == len(spans[at])
        else Kept(text, tuple(sorted(kept[at])))
        for at, text in enumerate(texts)
    ]  # fmt: skip


def _scores(question: str, sentences: Sequence[str], embedder: Embedder) -> list[float]:
    """Meaning and words in equal parts."""
    vectors = embedder.embed([question, *sentences])
    meaning = np.clip(vectors[1:] @ vectors[0], 0, 1)
    wanted = set(terms(question))
    shared = [len(wanted & set(terms(one))) / (len(wanted) or 1) for one in sentences]
    return [float(a) + b for a, b in zip(meaning, shared, strict=True)]
