"""Compare the two generations of a collection on questions: those of the journal, or of a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ragstone.engine import Engine
from ragstone.evaluate.datasets import Question, Target
from ragstone.evaluate.metrics import label_chunks, measure_rankings
from ragstone.filters import HistoryFilter
from ragstone.query.request import build_query
from ragstone.trace import QueryRun
from ragstone.types import Hits

_DEPTH = 10
_SHOWN_MEASURES = ("ndcg@10", "recall@10", "hit@1")


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """Hold what both generations found for one question, best first."""

    question: Question
    before: Hits
    after: Hits

    @property
    def overlap(self) -> float:
        """Return the share of the first ten chunks that both found."""
        before, after = ({hit.chunk.id for hit in side} for side in (self.before, self.after))
        return len(before & after) / max(len(before), len(after), 1)

    @property
    def has_same_first(self) -> bool:
        return _name_first(self.before) == _name_first(self.after)


@dataclass(frozen=True, slots=True)
class GenerationComparison:
    """Hold the result of a comparison: the generation that is searched, and the other one."""

    before: str
    after: str
    questions: tuple[ComparedQuestion, ...]

    @property
    def overlap(self) -> float:
        return sum(one.overlap for one in self.questions) / max(len(self.questions), 1)

    @property
    def same_first(self) -> int:
        return sum(one.has_same_first for one in self.questions)

    def measure(self) -> dict[str, tuple[float, float]]:
        """Return measure → (before, after), over the questions whose documents are known."""
        graded = [one for one in self.questions if one.question.grades]
        if not graded:
            return {}
        grades = {one.question.id: one.question.grades for one in graded}
        sides = []
        for name in ("before", "after"):
            rankings = {
                one.question.id: label_chunks(
                    one.question, [hit.chunk for hit in getattr(one, name)]
                )
                for one in graded
            }
            sides.append(measure_rankings(grades, rankings))
        return {
            name: (_average(sides[0][name].values()), _average(sides[1][name].values()))
            for name in _SHOWN_MEASURES
        }

    @property
    def graded_count(self) -> int:
        return sum(bool(one.question.grades) for one in self.questions)

    def as_dict(self) -> dict[str, Any]:
        return {
            "searched": self.before,
            "other": self.after,
            "questions": len(self.questions),
            "overlap_at_10": self.overlap,
            "same_first_document": self.same_first,
            "graded_questions": self.graded_count,
            "measures": {
                name: {"searched": before, "other": after}
                for name, (before, after) in self.measure().items()
            },
        }


def read_own_questions(engine: Engine, collection: str, limit: int) -> list[Question]:
    """Return the latest different questions of the journal; their targets are what was cited.

    What was cited was found by the generation before: that one has the advantage.
    """
    wanted = HistoryFilter(collections=[collection])
    found: dict[str, Question] = {}
    for skip in range(0, 20 * limit, 200):
        entries = engine.catalog.queries(skip=skip, limit=200, wanted=wanted)
        for entry in entries:
            text = entry["query"]
            if text and text not in found and len(found) < limit:
                cited = {one["document_id"]: one for one in entry.get("citations") or ()}
                targets = tuple(Target(name, document=name) for name in cited)
                found[text] = Question(entry["query_id"], text, targets)
        if len(entries) < 200 or len(found) >= limit:
            break
    return list(found.values())


async def compare_generations(
    before: Engine, after: Engine, collection: str, questions: Sequence[Question]
) -> GenerationComparison:
    """Search every question with both engines, each with its own embedder."""
    compared = [
        ComparedQuestion(
            one, await _search(before, collection, one), await _search(after, collection, one)
        )
        for one in questions
    ]
    return GenerationComparison(before.embedder.name, after.embedder.name, tuple(compared))


async def _search(engine: Engine, collection: str, question: Question) -> Hits:
    query = build_query(question.text, {"collection": collection, "top_k": _DEPTH}, engine.settings)
    return (await engine.pipeline.search(query, QueryRun(query.id))).hits


def _name_first(hits: Hits) -> str:
    return hits[0].chunk.document_id if hits else ""


def _average(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / max(len(listed), 1)
