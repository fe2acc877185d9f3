"""Make questions from the user's own documents, without a model or with one.

A collection in → a dataset out; the same documents and the same seed give the same questions.

Without a model a question asks for a fact of one sentence: a date, a sum, a name. `wording` turns
simple English sentences into questions; if these are too few, the other sentences give words for a
search box, as a person who looks for the fact would type them (simulated known-item queries,
Azzopardi et al. 2007). Both share
words with their source and so favour keyword search: good for comparing settings with each other,
too easy for claims about quality. Unanswerable questions are real ones whose document is hidden.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, Field

from ragstone.engine import Engine
from ragstone.errors import InputError, ProviderError
from ragstone.evaluate.datasets import Dataset, Question, Target
from ragstone.evaluate.run import require_language_model
from ragstone.evaluate.wording import word_question
from ragstone.evaluate.workbench import Progress, ignore_progress
from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.prompts import render
from ragstone.protocols import Chat
from ragstone.query.understand.rewrite import ask_json
from ragstone.reading.kinds import Kind, find_offers
from ragstone.text import find_sentence_spans, split_words
from ragstone.types import Document

# Kinds of facts to look for in a sentence, the most certain first.
_KINDS: tuple[Kind, ...] = ("money", "percent", "duration", "when", "number", "who")
_MAX_SENTENCE_WORDS = 60
_MIN_SENTENCE_WORDS = 5
# A person types a handful of words, and a sentence that gives them says more than that.
_MAX_WORDS = 7
_MIN_WORDS = 3
_MIN_SEARCHED_WORDS = 8
_UNANSWERABLE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence with a fact to ask for."""

    document: Document
    sentence: str
    answer: str
    rest: tuple[str, ...] = ()
    """Words around the answer, in their order."""
    question: str = ""
    """A question that the sentence answers; empty if no rule makes one of it."""


async def make_questions(
    engine: Engine,
    collection: str,
    *,
    count: int,
    seed: int,
    use_model: bool = False,
    progress: Progress = ignore_progress,
) -> Dataset:
    """Make up to `count` questions; with several documents, one in five is unanswerable."""
    if use_model:
        require_language_model(engine, "--with-model")
    documents = [
        engine.catalog.document(one.id)
        for one in engine.documents(collection)
        if one.status == "indexed"
    ]
    facts = [fact for document in documents for fact in find_facts(document)]
    if not facts:
        raise InputError(
            f"The collection '{collection}' has no sentence to make a question from.",
            hint="Ingest documents with whole sentences first: ragstone ingest DOCUMENTS/",
        )
    counts = Counter(term for document in documents for term in set(extract_terms(document.text)))
    chosen = _sample_facts(facts, count, seed)
    questions: list[Question] = []
    for number, fact in enumerate(chosen):
        progress("making questions", number, len(chosen))
        made = await _ask_by_model(engine, fact) if use_model else None
        questions.append(made or _ask_by_rule(fact, counts, seed))
    several = len({fact.document.id for fact in chosen}) > 1
    hidden = int(len(questions) * _UNANSWERABLE_SHARE) if several else 0
    questions[:hidden] = [
        replace(
            one,
            id=f"{one.id}-hidden",
            targets=(),
            answers=(),
            answerable=False,
            hidden_documents=(fact.document.name,),
        )
        for one, fact in zip(questions[:hidden], chosen, strict=False)
    ]
    unique = {one.id: one for one in questions}
    origin = f"{len(documents)} documents, seed {seed}"
    return Dataset(f"documents of {collection}", tuple(unique.values()), origin=origin)


def find_facts(document: Document) -> Iterator[Fact]:
    """Yield one fact of each sentence that has one."""
    for start, end in find_sentence_spans(document.text):
        sentence = " ".join(document.text[start:end].split())
        count = len(split_words(sentence))
        whole = sentence.endswith((".", "!", "。", "।")) and sentence[0].isupper()
        if not whole or not _MIN_SENTENCE_WORDS <= count <= _MAX_SENTENCE_WORDS:
            continue  # a table row, a heading, a page footer
        spans = [(kind, *span) for kind in _KINDS for span in find_offers(kind, "", sentence)]
        worded = ((word_question(sentence, b, e, kind), b, e) for kind, b, e in spans)
        if asked := next((one for one in worded if one[0]), None):
            question, begin, stop = asked
            yield Fact(document, sentence, sentence[begin:stop].strip(), question=question or "")
        elif spans and count >= _MIN_SEARCHED_WORDS:
            _, begin, stop = spans[0]
            rest = split_words(f"{sentence[:begin]} {sentence[stop:]}")
            if len(_keep_content_words(rest)) >= _MIN_WORDS:
                yield Fact(document, sentence, sentence[begin:stop].strip(), tuple(rest))


def _sample_facts(facts: Sequence[Fact], count: int, seed: int) -> list[Fact]:
    """Sample evenly over the documents: each gives one sentence in turn, in a random order.

    Those that are whole questions come first.
    """
    generator = random.Random(seed)  # noqa: S311  a sample, no secret
    by_document: dict[str, list[Fact]] = {}
    for fact in facts:
        by_document.setdefault(fact.document.id, []).append(fact)
    piles = [
        by_document[key] for key in sorted(by_document, key=lambda one: _hash_parts(seed, one))
    ]
    for pile in piles:
        generator.shuffle(pile)
    chosen: list[Fact] = []
    for is_worded in (True, False):
        left = [[fact for fact in pile if bool(fact.question) is is_worded] for pile in piles]
        while len(chosen) < count and any(left):
            chosen += [pile.pop() for pile in left if pile]
    return chosen[:count]


def _ask_by_rule(fact: Fact, counts: Counter[str], seed: int) -> Question:
    identity = _hash_parts(seed, fact.document.id, fact.sentence)
    if fact.question:
        return _build_question(fact, identity, fact.question, fact.answer)
    generator = random.Random(identity)  # noqa: S311  a sample, no secret
    content = _keep_content_words(fact.rest)
    length = min(_MAX_WORDS, max(_MIN_WORDS, round(len(content) * 0.6)))
    # People remember rare words more often than common ones, but not always.
    weight = {
        word: generator.random() ** (0.2 + _compute_commonness(word, counts)) for word in content
    }
    chosen = set(sorted(content, key=lambda word: -weight[word])[:length])
    text = " ".join(word for word in content if word in chosen)
    return _build_question(fact, identity, text, fact.answer)


def _keep_content_words(sentence: Sequence[str]) -> list[str]:
    """Drop stop words, single letters, numbers and repetitions."""
    return [
        word
        for word in dict.fromkeys(sentence)
        if word not in STOP_WORDS and len(word) > 1 and not word[0].isdigit()
    ]


def _compute_commonness(word: str, counts: Counter[str]) -> float:
    """Return the share of documents with the word, relative to the most common word."""
    rarest = min((counts[term] for term in extract_terms(word)), default=0)
    return rarest / max(1, max(counts.values(), default=1))


class _ModelQuestion(BaseModel):
    question: str = Field(min_length=5)
    answer: str = Field(min_length=1)


async def _ask_by_model(engine: Engine, fact: Fact) -> Question | None:
    """Let a model write the question; None if its answer is not in the sentence."""
    if not isinstance(engine.provider, Chat):
        return None
    prompt = render("question", passage=fact.sentence, title=fact.document.name)
    try:
        reply = _ModelQuestion.model_validate(
            await ask_json(engine.provider, prompt, _ModelQuestion)
        )
    except ProviderError:
        return None
    if reply.answer.casefold() not in fact.sentence.casefold():
        return None
    identity = _hash_parts(0, fact.document.id, fact.sentence)
    return _build_question(fact, identity, " ".join(reply.question.split()), reply.answer)


def _build_question(fact: Fact, identity: str, text: str, answer: str) -> Question:
    name = fact.document.name
    target = Target(f"{name}#{identity}", document=name, text=fact.sentence)
    return Question(identity, text, (target,), (answer,), answerable=True)


def _hash_parts(seed: int, *parts: str) -> str:
    return hashlib.sha256("\0".join([str(seed), *parts]).encode()).hexdigest()[:12]
