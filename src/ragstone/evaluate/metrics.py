"""How sure a mean is, and a difference of means: questions drawn again with replacement."""

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
from ragstone.text import support
from ragstone.types import Chunk

Values: TypeAlias = NDArray[np.float64]
Interval: TypeAlias = tuple[float, float]

ROUNDS = 2000
# Draws are made in blocks of about this many numbers: 16 MB.
_BLOCK = 2_000_000


def interval(values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> Interval:
    """The 95 % interval of a mean."""
    if len(values) == 0:
        return 0.0, 0.0
    return _percentiles(_drawn_means(np.asarray(values, np.float64), rounds, seed))


def paired_bootstrap(
    ours: Values, theirs: Values, *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """The 95 % interval of the mean difference of two systems on the same questions."""
    return interval(np.asarray(ours) - np.asarray(theirs), rounds=rounds, seed=seed)


def stratified_bootstrap(
    pairs: Sequence[tuple[Values, Values]], *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """The same for the mean over sets, each set's questions drawn by themselves."""
    means = np.zeros(rounds)
    for number, (ours, theirs) in enumerate(pairs):
        means += _drawn_means(ours - theirs, rounds, seed + number) / len(pairs)
    return _percentiles(means)


def _drawn_means(values: Values, rounds: int, seed: int) -> Values:
    generator = np.random.default_rng(seed)
    at_once = max(1, _BLOCK // len(values))
    means = [
        values[generator.integers(0, len(values), (min(at_once, rounds - begun), len(values)))]
        .mean(axis=1)
        for begun in range(0, rounds, at_once)
    ]  # fmt: skip
    return np.concatenate(means)


def _percentiles(means: Values) -> Interval:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


RANKING = ("ndcg@10", "recall@10", "recall@100", "precision@5", "mrr@10", "hit@1", "hit@10")
ANSWER = (
    "exact_match", "f1", "containment", "groundedness", "citation_precision", "citation_recall",
    "cited_relevant", "decided_right",
)  # fmt: skip
JUDGED = ("judged_faithfulness", "judged_relevance")
# Lower is better.
COSTS = ("latency_ms", "cpu_ms", "input_tokens", "output_tokens", "cost_usd", "aurc", "ece")

# The share of words and of runs of three words from which two texts count as the same evidence.
SAME_EVIDENCE = 0.6


def ranking_measures(
    grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """measure → question → value, for every question that has grades."""
    names = _measures()
    judged = {query: dict(found) for query, found in grades.items() if found}
    # trec_eval orders by score and breaks ties in its own way: the rank itself is the score.
    runs = {
        query: {label: 1.0 / rank for rank, label in enumerate(rankings.get(query, ()), start=1)}
        for query in judged
    }
    found: dict[str, dict[str, float]] = {name: dict.fromkeys(judged, 0.0) for name in RANKING}
    if judged:
        from ir_measures import iter_calc

        for one in iter_calc(list(names), judged, runs):
            found[names[one.measure]][one.query_id] = float(one.value)
    return found


def _measures() -> dict[Any, str]:
    try:
        from ir_measures import RR, P, R, Success, nDCG
    except ImportError as error:
        raise SettingsError(
            "Measuring rankings needs the package ir-measures.",
            hint="Try: pip install 'ragstone[eval]'",
        ) from error
    measures = (nDCG @ 10, R @ 10, R @ 100, P @ 5, RR @ 10, Success @ 1, Success @ 10)
    return dict(zip(measures, RANKING, strict=True))


def labelled(question: Question, hits: Sequence[Chunk]) -> list[str]:
    """A ranking of chunks as labels: a target's where one is met, else the document's own name.

    A document counts once, at its best chunk; a text inside a document counts chunk by chunk, and
    a chunk that holds several counts for each: else longer chunks would find less.
    """
    by_document = {one.document: one for one in question.targets if one.document and not one.text}
    by_text = [one for one in question.targets if one.text]
    ranking: list[str] = []
    for chunk in hits:
        found = by_document.get(chunk.document_name) or next(
            (by_document[name] for name in by_document if is_named(chunk, name)), None
        )
        met = [found] if found else [one for one in by_text if meets(chunk, one)]
        own = chunk.id if by_text else chunk.document_name
        ranking += [one.label for one in met] or [own]
    return list(dict.fromkeys(ranking))


def meets(chunk: Chunk, target: Target) -> bool:
    """Whether a chunk is, or holds, what a target asks for."""
    if target.document and not is_named(chunk, target.document):
        return False
    return not target.text or same_evidence(chunk.text, target.text)


def is_named(chunk: Chunk, name: str) -> bool:
    """Whether a dataset means this chunk or its document: by id, by name, or by a path to it."""
    held = chunk.document_name
    return name in (held, chunk.document_id, chunk.id) or name.endswith(f"/{held}")


def same_evidence(text: str, evidence: str) -> bool:
    return max(support(evidence, text), support(text, evidence)) >= SAME_EVIDENCE


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_MARKERS = re.compile(r"\[Source \d+\]|\[[^\[\]\s]+:\d+\]")
_PUNCTUATION = {ord(char): " " for char in string.punctuation + "“”‘’«»„…–—"}


def plain(text: str) -> str:
    """SQuAD's normal form: lower case, no punctuation, no articles, single spaces."""
    text = unicodedata.normalize("NFKC", _MARKERS.sub("", text)).casefold()
    return " ".join(_ARTICLES.sub(" ", text.translate(_PUNCTUATION)).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    return float(any(plain(answer) == plain(one) for one in references))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """The best harmonic mean of the shares of words that answer and reference have in common."""
    return max((_f1(plain(answer).split(), plain(one).split()) for one in references), default=0.0)


def _f1(left: Sequence[str], right: Sequence[str]) -> float:
    if not left or not right:
        return float(left == right)
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right))


def containment(answer: str, references: Sequence[str]) -> float:
    """Whether a whole reference stands in the answer, word for word."""
    held = f" {plain(answer)} "
    return float(any(plain(one) and f" {plain(one)} " in held for one in references))


class Judgement(BaseModel):
    faithfulness: float = Field(ge=0, le=10)
    relevance: float = Field(ge=0, le=10)


async def judged(chat: Chat, question: Question, answer: str) -> dict[str, float]:
    """Faithfulness to the reference and relevance to the question, each from 0 to 1."""
    reference = "\n".join(question.answers) or "(none is known)"
    prompt = render("judge", question=question.text, reference=reference, answer=answer)
    try:
        found = Judgement.model_validate(await ask_json(chat, prompt, Judgement))
    except ProviderError:
        return {}
    return {
        "judged_faithfulness": found.faithfulness / 10,
        "judged_relevance": found.relevance / 10,
    }
