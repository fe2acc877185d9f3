"""Measure rankings and answers, and bootstrap the intervals of means and differences."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from ragstone.errors import ProviderError, SettingsError
from ragstone.evaluate.datasets import Question, Target
from ragstone.prompts import render
from ragstone.protocols import Chat
from ragstone.query.understand.rewrite import ask_json
from ragstone.text import measure_support
from ragstone.types import Chunk

Values: TypeAlias = NDArray[np.float64]
Interval: TypeAlias = tuple[float, float]

ROUNDS = 2000
# Draw in blocks of about this many numbers: 16 MB.
_BLOCK_VALUES = 2_000_000


def bootstrap_interval(values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> Interval:
    """Return the 95 % interval of a mean: draw the questions again with replacement."""
    if len(values) == 0:
        return 0.0, 0.0
    return _percentile_interval(_draw_means(np.asarray(values, np.float64), rounds, seed))


def paired_bootstrap(
    ours: Values, theirs: Values, *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """Return the 95 % interval of the mean difference of two systems on the same questions."""
    return bootstrap_interval(np.asarray(ours) - np.asarray(theirs), rounds=rounds, seed=seed)


def stratified_bootstrap(
    pairs: Sequence[tuple[Values, Values]], *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """Return the same for the mean over datasets, each drawn separately."""
    means = np.zeros(rounds)
    for number, (ours, theirs) in enumerate(pairs):
        means += _draw_means(ours - theirs, rounds, seed + number) / len(pairs)
    return _percentile_interval(means)


def _draw_means(values: Values, rounds: int, seed: int) -> Values:
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK_VALUES // len(values))
    means = []
    for begun in range(0, rounds, rows):
        shape = (min(rows, rounds - begun), len(values))
        means.append(values[generator.integers(0, len(values), shape)].mean(axis=1))
    return np.concatenate(means)


def _percentile_interval(means: Values) -> Interval:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


RANKING_MEASURES = (
    "ndcg@10",
    "recall@10",
    "recall@100",
    "precision@5",
    "mrr@10",
    "hit@1",
    "hit@10",
)
ANSWER_MEASURES = (
    "exact_match",
    "f1",
    "containment",
    "groundedness",
    "citation_precision",
    "citation_recall",
    "cited_relevant",
    "decided_right",
)
JUDGE_MEASURES = ("judged_faithfulness", "judged_relevance")
# Lower is better.
COST_MEASURES = ("latency_ms", "cpu_ms", "input_tokens", "output_tokens", "cost_usd", "aurc", "ece")

# Two texts count as the same evidence from this share of common words and word triples.
_MIN_EVIDENCE_OVERLAP = 0.6


def measure_rankings(
    grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Return measure → question → value, for every question that has grades."""
    names = _load_measures()
    judged = {query: dict(graded) for query, graded in grades.items() if graded}
    # trec_eval sorts by score and breaks ties in its own order: make the score follow the rank.
    runs = {
        query: {label: 1.0 / rank for rank, label in enumerate(rankings.get(query, ()), start=1)}
        for query in judged
    }
    values = {name: dict.fromkeys(judged, 0.0) for name in RANKING_MEASURES}
    if judged:
        from ir_measures import iter_calc

        for one in iter_calc(list(names), judged, runs):
            values[names[one.measure]][one.query_id] = float(one.value)
    return values


def _load_measures() -> dict[Any, str]:
    try:
        from ir_measures import RR, P, R, Success, nDCG
    except ImportError as error:
        raise SettingsError(
            "Measuring rankings needs the package ir-measures.",
            hint="Try: pip install 'ragstone[eval]'",
        ) from error
    measures = (nDCG @ 10, R @ 10, R @ 100, P @ 5, RR @ 10, Success @ 1, Success @ 10)
    return dict(zip(measures, RANKING_MEASURES, strict=True))


def label_chunks(question: Question, chunks: Sequence[Chunk]) -> list[str]:
    """Turn a ranking of chunks into labels: of the target that a chunk matches, or the document's.

    A document counts once, at its best chunk. A text counts chunk by chunk, and a chunk that holds
    several texts counts for each: otherwise longer chunks would find less.
    """
    by_document = {one.document: one for one in question.targets if one.document and not one.text}
    by_text = [one for one in question.targets if one.text]
    ranking: list[str] = []
    for chunk in chunks:
        document = by_document.get(chunk.document_name) or next(
            (by_document[name] for name in by_document if is_named(chunk, name)), None
        )
        matches = [document] if document else [one for one in by_text if is_match(chunk, one)]
        own_label = chunk.id if by_text else chunk.document_name
        ranking += [one.label for one in matches] or [own_label]
    return list(dict.fromkeys(ranking))


def is_match(chunk: Chunk, target: Target) -> bool:
    """Return whether a chunk is, or contains, the target."""
    if target.document and not is_named(chunk, target.document):
        return False
    return not target.text or is_same_evidence(chunk.text, target.text)


def is_named(chunk: Chunk, name: str) -> bool:
    """Return whether `name` means this chunk or its document: by id, by name, or by a path."""
    own = chunk.document_name
    return name in (own, chunk.document_id, chunk.id) or name.endswith(f"/{own}")


def is_same_evidence(text: str, evidence: str) -> bool:
    return (
        max(measure_support(evidence, text), measure_support(text, evidence))
        >= _MIN_EVIDENCE_OVERLAP
    )


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_MARKERS = re.compile(r"\[Source \d+\]|\[[^\[\]\s]+:\d+\]")
_PUNCTUATION = {ord(char): " " for char in string.punctuation + "“”‘’«»„…–—"}


def normalize_answer(text: str) -> str:
    """Normalize as SQuAD does: lower case, no punctuation, no articles, single spaces."""
    text = unicodedata.normalize("NFKC", _MARKERS.sub("", text)).casefold()
    return " ".join(_ARTICLES.sub(" ", text.translate(_PUNCTUATION)).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    return float(any(normalize_answer(answer) == normalize_answer(one) for one in references))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """Return the best F1 of the words that the answer shares with a reference."""
    return max(
        (
            _f1(normalize_answer(answer).split(), normalize_answer(one).split())
            for one in references
        ),
        default=0.0,
    )


def _f1(left: Sequence[str], right: Sequence[str]) -> float:
    if not left or not right:
        return float(left == right)
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right))


def containment(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the answer contains a whole reference, word for word."""
    text = f" {normalize_answer(answer)} "
    wanted = [normalize_answer(reference) for reference in references]
    return float(any(one and f" {one} " in text for one in wanted))


class Judgement(BaseModel):
    faithfulness: float = Field(ge=0, le=10)
    relevance: float = Field(ge=0, le=10)


async def judge_answer(chat: Chat, question: Question, answer: str) -> dict[str, float]:
    """Let a model judge faithfulness and relevance, each from 0 to 1; empty if its reply is bad."""
    reference = "\n".join(question.answers) or "(none is known)"
    prompt = render("judge", question=question.text, reference=reference, answer=answer)
    try:
        verdict = Judgement.model_validate(await ask_json(chat, prompt, Judgement))
    except ProviderError:
        return {}
    return {
        "judged_faithfulness": verdict.faithfulness / 10,
        "judged_relevance": verdict.relevance / 10,
    }
