"""Choose the passages of the sources that answer a question, and estimate how probable that is.

question and sources → a choice. The extractive provider quotes it; for every other provider its
probability grades the evidence. A question with several parts is answered part by part.
"""

from __future__ import annotations

import math
import tomllib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.index.analyze import detect_language
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.analysis import SOURCES_READ
from ragstone.reading.features import (
    CHEAP,
    MEANING,
    Candidate,
    QuestionTerms,
    compute_cheap_features,
    compute_meaning_features,
    list_candidates,
    weigh_terms,
)
from ragstone.reading.model import ReadingModel, load_reading_model
from ragstone.reading.question import Question, QuestionKind, parse_question
from ragstone.reading.read import READING, ShortAnswer, read_sentences
from ragstone.reading.times import find_covered_year, prefer_valid, remove_year
from ragstone.reading.write import build_units, count_prose_words, find_short_answer
from ragstone.reading.yes_no import YesNo, judge_yes_no
from ragstone.types import Source

# Features of the whole ranking, beside those of the best sentence.
OVERALL = ("share", "lead", "meaning_max", "coverage_around_max", "similarity_max")
KINDS: tuple[QuestionKind, ...] = ("definition", "how_to", "list", "yes_no", "why", "other")
MAX_SENTENCES = 3
# Only these sentences are embedded: at most so many, and none with less than this share by the
# cheap features. bench/fit_answers.py prints how often the answer is among them.
SENTENCES_EMBEDDED = 8
SHARE_EMBEDDED = 0.003
# Passages are read until so many characters are reached, about 430 tokens: 50 CPU ms.
CHARS_READ = 1_800
# A short answer stands alone, so it must be more probable than a quotation.
_SURE_OF_SHORT = 0.6
# The same holds for an answer to a question without a part of a document's name.
_MAX_LEAD = 4.0
# Differences of scores, chosen on the development half of bench/packs/answers.jsonl.
_REFERS_COSTS = 3.0
_STEP_COMPETES = 2.5
_STEP_LEADS = 0.5
_STEPS_TOGETHER = 5.0
_USUAL_WORDS = 24
_LENGTH_COSTS = 1.3
_MAX_EXCESS = 1.8
_MAX_CHOICES = 64
# Greek begins here. Latin letters beyond, which Vietnamese has, are a small part of a text.
_END_OF_LATIN = 0x0370


@dataclass(frozen=True, slots=True)
class Weights:
    """Hold one weight per feature name; a missing name weighs nothing."""

    cheap: NDArray[np.float64]
    rank: NDArray[np.float64]
    answer: NDArray[np.float64]
    bias: float


@dataclass(frozen=True, slots=True)
class AllWeights:
    """Hold the weights for text that the reading model reads, that the embedder reads, and other
    text, of which only the words are compared."""

    reading: Weights
    meaning: Weights
    words: Weights
    threshold: float
    """A less probable answer is not given."""
    near: float
    """From here on the nearest passage is shown, as one that does not answer."""
    enough: float
    """Sentences are added until their share of the ranking's probability reaches this."""


@cache
def load_weights() -> AllWeights:
    table = _load_table("weights.toml")
    return AllWeights(
        reading=_read_weights(table["reading"], READING),
        meaning=_read_weights(table["meaning"], MEANING),
        words=_read_weights(_load_table("words.toml"), MEANING),
        threshold=float(table["threshold"]),
        near=float(table["near"]),
        enough=float(table["enough"]),
    )


def _load_table(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


def _read_weights(table: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> Weights:
    return Weights(
        cheap=_read_row(table["cheap"], CHEAP),
        rank=_read_row(table["rank"], (*CHEAP, *names)),
        answer=_read_row(table["answer"], (*CHEAP, *names, *OVERALL, *KINDS)),
        bias=float(table["answer"]["bias"]),
    )


def _read_row(table: Mapping[str, float], names: Sequence[str]) -> NDArray[np.float64]:
    return np.array([table.get(name, 0.0) for name in names], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PartChoice:
    """Hold what answers one part of a question, best sentences first."""

    question: str
    sentences: tuple[Candidate, ...] = ()
    probability: float = 0.0
    short: ShortAnswer | None = None
    """The short answer inside the first sentence."""
    yes_no: YesNo = ""
    """What the first sentence says to a yes/no question, where the verifier is sure."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold the choice of every part; a question that asks one thing has one part."""

    parts: tuple[PartChoice, ...]

    @property
    def probability(self) -> float:
        """Return how probable it is that the best part is answered."""
        return max((part.probability for part in self.parts), default=0.0)


@dataclass(frozen=True, slots=True)
class AnswerChooser:
    """Choose sentences, and keep the last choices: the evidence is graded before it is quoted."""

    embedder: Embedder
    model: ReadingModel = field(default_factory=load_reading_model)
    weights: AllWeights = field(default_factory=load_weights)
    measures_similarity: bool = False
    """Measure the similarity of the sources here: another model found them, and the weights were
    fitted to the similarities of `embedder`."""
    _choices: OrderedDict[tuple[str, ...], Choice] = field(default_factory=OrderedDict)

    def estimate_probability(self, question: str, sources: Sequence[Source]) -> float:
        """Estimate how probable it is that the sources hold the answer."""
        return self.choose(question, sources).probability

    def find_short_answer(self, question: str, sources: Sequence[Source]) -> str:
        """Return the name, date or amount asked for, where the answer is given at all."""
        choice = self.choose(question, sources)
        part = choice.parts[0]
        if len(choice.parts) > 1 or part.probability < _SURE_OF_SHORT or not part.sentences:
            return ""
        return find_short_answer(parse_question(part.question), part.short)

    def choose(self, question: str, sources: Sequence[Source]) -> Choice:
        """Return the choice for a question, computed at most once while it is kept."""
        key = (question, *(f"{source.hit.chunk.id}\0{source.text}" for source in sources))
        choice = self._choices.get(key)
        if choice is None:
            if self.measures_similarity:
                sources = add_similarities(question, sources, self.embedder)
            parts = parse_question(question).parts or (question,)
            choice = Choice(tuple(self._choose_part(part, sources) for part in parts))
            self._choices[key] = choice
            while len(self._choices) > _MAX_CHOICES:
                self._choices.popitem(last=False)
        return choice

    def _choose_part(self, question: str, sources: Sequence[Source]) -> PartChoice:
        return self._choose_among(question, sources)

    def _choose_among(self, question: str, sources: Sequence[Source]) -> PartChoice:
        candidates = list_candidates(question, sources)
        if not candidates:
            return PartChoice(question)
        year = find_covered_year(question, candidates)
        terms = weigh_terms(remove_year(question, year) if year else question, candidates)
        cheap = compute_cheap_features(terms, candidates)
        if self.model.is_installed and is_readable(question, candidates):
            return self._choose_by_reading(terms, candidates, cheap, year)
        return self._choose_without_reading(terms, candidates, cheap, year)

    def _choose_by_reading(
        self,
        terms: QuestionTerms,
        candidates: Sequence[Candidate],
        cheap: Vectors,
        year: int | None,
    ) -> PartChoice:
        weights = self.weights.reading
        places = select_passages(candidates, cheap @ weights.cheap)
        front = [candidates[place] for place in places]
        read = read_sentences(terms.text, front, self.model)
        rows: Vectors = np.hstack([cheap[places], read.features])
        ranked = prefer_form(terms.question, front, rows @ weights.rank)
        # A newer statement answers what the one that it replaces answers, in fewer of its words.
        probability = estimate_probability(weights, rows, ranked, terms.question.kind)
        scores = prefer_valid(terms.question, front, ranked, year)
        order = self._take_enough(scores)
        if terms.question.kind == "how_to":
            order = add_steps(order, front, scores)
        chosen = tuple(front[place] for place in order)
        units = build_units(terms.question, chosen)
        # One long sentence, as contracts have them, is no reason to doubt.
        first = len(chosen[0].text.split())
        words = min(first, _USUAL_WORDS) + max(0, count_prose_words(units) - first)
        probability = allow_for_length(probability, words)
        said: YesNo = ""
        if terms.question.kind == "yes_no":
            judgement = judge_yes_no(terms.text, units[0].text, self.model)
            if judgement is not None:
                said, probability = judgement.said, judgement.adjust(probability)
        return PartChoice(terms.text, chosen, probability, read.short_answers[order[0]], said)

    def _choose_without_reading(
        self,
        terms: QuestionTerms,
        candidates: Sequence[Candidate],
        cheap: Vectors,
        year: int | None,
    ) -> PartChoice:
        """Compare by the embedder, or by words alone where it does not know the script."""
        is_known = is_script_known(self.embedder, terms.text, candidates)
        weights = self.weights.meaning if is_known else self.weights.words
        places = select_front(cheap @ weights.cheap)
        front = [candidates[place] for place in places]
        meaning = np.zeros((len(front), len(MEANING)), dtype=np.float32)
        if is_known:
            meaning = compute_meaning_features(terms, front, self.embedder)
        rows: Vectors = np.hstack([cheap[places], meaning])
        ranked = rows @ weights.rank
        scores = prefer_valid(terms.question, front, ranked, year)
        first, *more = self._take_enough(scores)
        # A sentence that shares no word with the question may only stand alone.
        more = [place for place in more if rows[place, CHEAP.index("coverage")] > 0]
        chosen = tuple(front[place] for place in (first, *more))
        probability = estimate_probability(weights, rows, ranked, terms.question.kind)
        return PartChoice(terms.text, chosen, probability)

    def _take_enough(self, scores: NDArray[np.float64]) -> list[int]:
        """Return the places of the best sentences, until their share is enough."""
        shares = compute_shares(scores)
        chosen: list[int] = []
        total = 0.0
        for place in np.argsort(-scores, kind="stable")[:MAX_SENTENCES].tolist():
            chosen.append(place)
            total += float(shares[place])
            if total >= self.weights.enough:
                break
        return chosen


def is_readable(question: str, candidates: Sequence[Candidate]) -> bool:
    """Return True when question and text are in English, as far as one can tell."""
    first = candidates[0].passage.clean.text[:600]
    both = question + first
    letters = [] if both.isascii() else [c for c in both if c.isalpha()]
    is_latin = sum(c.isascii() for c in letters) >= 0.95 * len(letters)
    return is_latin and all(detect_language(t) in (None, "english") for t in (question, first))


def is_script_known(embedder: Embedder, question: str, candidates: Sequence[Candidate]) -> bool:
    """Return False when an embedder was trained on other scripts than the one of a text.

    It then sees unknown characters, and finds all texts alike: with every passage that answers
    hidden, it made all of 36 questions in Hindi be answered all the same (bench/hidden.py).
    """
    languages = getattr(embedder, "languages", None)
    text = question + candidates[0].passage.clean.text[:600]
    letters = [c for c in text if c.isalpha()]
    is_latin = 2 * sum(ord(c) < _END_OF_LATIN for c in letters) >= len(letters)
    return is_latin or languages is None or detect_language(question) in languages


def select_passages(
    candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Return the places of all sentences of the passages that are worth reading."""
    chosen: list[int] = []
    used = 0
    for place in np.argsort(-scores, kind="stable"):
        number = candidates[place].source.number
        if number in chosen:
            continue
        size = len(candidates[place].passage.readable.text)
        if chosen and used + size > CHARS_READ:
            break
        chosen.append(number)
        used += size
    taken = [at for at, one in enumerate(candidates) if one.source.number in chosen]
    return np.array(taken, dtype=np.intp)


def prefer_form(
    question: Question, candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Lower what only refers to an answer; for a how-to, raise the best step that competes."""
    scores = scores - _REFERS_COSTS * np.array([one.refers for one in candidates])
    best = int(np.argmax(scores))
    if question.kind != "how_to" or candidates[best].instructs:
        return scores
    steps = [
        place
        for place, one in enumerate(candidates)
        if one.instructs and scores[place] >= scores[best] - _STEP_COMPETES
    ]
    if steps:
        step = max(steps, key=lambda place: scores[place])
        scores[step] = scores[best] + _STEP_LEADS
    return scores


def add_steps(
    order: Sequence[int], candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> list[int]:
    """Add the next steps of the passage that shows how to do it."""
    first = candidates[order[0]]
    steps = [
        place
        for place in np.argsort(-scores, kind="stable").tolist()
        if candidates[place].passage is first.passage
        and candidates[place].instructs
        and scores[place] >= scores[order[0]] - _STEPS_TOGETHER
    ]
    wanted = [*order, *steps] if first.instructs else list(order)
    return list(dict.fromkeys(wanted))[:MAX_SENTENCES]


def add_similarities(question: str, sources: Sequence[Source], embedder: Embedder) -> list[Source]:
    """Add similarities by this embedder to the sources that are read; others keep theirs."""
    read = sources[:SOURCES_READ]
    vectors = embedder.embed([question, *(s.hit.chunk.contextual_text for s in read)])
    cosines = (vectors[1:] @ vectors[0]).tolist()
    measured = [
        replace(source, hit=source.hit.with_scores(similarity=cosine))
        for source, cosine in zip(read, cosines, strict=True)
    ]
    return [*measured, *sources[SOURCES_READ:]]


def select_front(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the places of the sentences that are worth embedding, best first."""
    order = np.argsort(-scores, kind="stable")[:SENTENCES_EMBEDDED]
    # Always the best one: among hundreds of similar lines the share of each is near zero.
    count = int((compute_shares(scores)[order] >= SHARE_EMBEDDED).sum())
    return order[: max(1, count)]


def compute_shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn the scores of a ranking into probabilities that add up to 1."""
    raised = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = raised / raised.sum()
    return shares


def estimate_probability(
    weights: Weights, rows: Vectors, scores: NDArray[np.float64], kind: QuestionKind
) -> float:
    """Estimate how probable it is that the best sentence answers the question."""
    features = compute_answer_features(rows, scores, kind)
    logit = float(features @ weights.answer) + weights.bias
    return float(1.0 / (1.0 + np.exp(-logit)))


def allow_for_length(probability: float, words: int) -> float:
    """Return the probability of an answer, lower for one that needs many words.

    Where nothing answers well, sentences of the same subject are joined, or the cells of a table
    without borders stand in one line. On the development halves of bench/packs/answers.jsonl and
    office.jsonl 63 of 70 answers below 30 words are right, and 6 of 14 with 45 or more.
    """
    logit = math.log(probability / (1 - probability)) if 0 < probability < 1 else 0.0
    excess = math.log((1 + words) / _USUAL_WORDS)
    logit -= _LENGTH_COSTS * min(max(excess, -_MAX_EXCESS / 10), _MAX_EXCESS)
    return 1 / (1 + math.exp(-logit)) if 0 < probability < 1 else probability


def compute_answer_features(
    rows: Vectors, scores: NDArray[np.float64], kind: QuestionKind
) -> NDArray[np.float64]:
    """Join the features of the best sentence, of the whole ranking (`OVERALL`) and the kind."""
    order = np.argsort(-scores, kind="stable")
    lead = scores[order[0]] - scores[order[1]] if len(order) > 1 else _MAX_LEAD
    overall = [
        compute_shares(scores).max(),
        min(lead, _MAX_LEAD),
        rows[:, len(CHEAP)].max(),
        rows[:, CHEAP.index("coverage_around")].max(),
        rows[:, CHEAP.index("similarity")].max(),
    ]
    kinds = [float(kind == one) for one in KINDS]
    return np.concatenate([rows[order[0]], overall, kinds]).astype(np.float64)
