"""One number from 0 to 1 for an answer: how far its evidence is about the question.

The product of groundedness and of how much of the question the cited text takes up. It orders
answers; it is not yet a calibrated probability.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.query.refine.filter import similarity
from ragstone.stores.analyze import terms
from ragstone.types import Citation, Source


def confidence(
    question: str, citations: Sequence[Citation], sources: Sequence[Source], grounded: float
) -> float:
    wanted = set(terms(question))
    cited = set(terms(" ".join(citation.snippet for citation in citations)))
    covered = len(wanted & cited) / len(wanted) if wanted else 0.0
    used = {citation.number for citation in citations}
    similar = max((similarity(s.hit) for s in sources if s.number in used), default=0.0)
    return round(grounded * min(1.0, max(0.0, 0.5 * covered + 0.5 * similar)), 4)
