"""Questions made from the user's own documents, without a model or with one.

A collection in → a dataset out; the same documents and the same seed give the same questions.

Without a model a question is made of words of one sentence: the sentence's fact (a date, an amount,
a name) is the answer, and of the other words only some are left, as a person who looks for the fact
would type them (simulated known-item queries, Azzopardi et al. 2007). Such questions share words
with their source, so they are kind to keyword search: good for comparing settings with each other,
too kind for claims about quality. Unanswerable questions are real ones whose document is hidden.
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
from ragstone.evaluate.run import check_model
from ragstone.evaluate.workbench import Told, quiet
from ragstone.index.analyze import STOP_WORDS, terms
from ragstone.prompts import render
from ragstone.protocols import Chat
from ragstone.query.understand.rewrite import ask_json
from ragstone.reading.units import Kind, offers
from ragstone.text import sentence_spans, words
from ragstone.types import Document

# The kinds of facts a sentence is searched for, the most certain first, and how one asks.
_ASKED: tuple[tuple[Kind, str], ...] = (
    ("money", "how much"),
    ("percent", "what percentage"),
    ("duration", "how long"),
    ("when", "when"),
    ("number", "how many"),
    ("who", "who"),
)
_LONGEST_SENTENCE = 60
_SHORTEST_SENTENCE = 8
# A person types a handful of words.
_MOST_WORDS = 7
_FEWEST_WORDS = 3
_UNANSWERABLE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that holds something one can ask for."""

    document: Document
    sentence: str
    kind: str
    answer: str
    rest: tuple[str, ...]
    """The words around the answer, in their order."""


async def questions_from_documents(
    engine: Engine, collection: str, *, count: int, seed: int, use_model: bool = False,
    told: Told = quiet,
) -> Dataset:  # fmt: skip
    """Up to `count` questions; where there are several documents, one in five is unanswerable."""
    if use_model:
        check_model(engine, "--with-model")
    documents = [engine.catalog.document(one.id) for one in engine.documents(collection)
                 if one.status == "indexed"]  # fmt: skip
    facts = [fact for document in documents for fact in facts_of(document)]
    if not facts:
        raise InputError(
            f"The collection '{collection}' holds no sentence that a question can be made of.",
            hint="Ingest documents with whole sentences first: ragstone ingest DOCUMENTS/",
        )
    rarity = _rarity(documents)
    chosen = _chosen(facts, count, seed)
    questions: list[Question] = []
    for number, fact in enumerate(chosen):
        told("making questions", number, len(chosen))
        made = await _by_model(engine, fact) if use_model else None
        questions.append(made or _by_rule(fact, rarity, seed))
    several = len({fact.document.id for fact in chosen}) > 1
    hidden = int(len(questions) * _UNANSWERABLE_SHARE) if several else 0
    questions[:hidden] = [
        replace(
            one, id=f"{one.id}-hidden", targets=(), answers=(), answerable=False,
            without=(fact.document.name,),
        )
        for one, fact in zip(questions[:hidden], chosen, strict=False)
    ]  # fmt: skip
    unique = {one.id: one for one in questions}
    origin = f"{len(documents)} documents, seed {seed}"
    return Dataset(f"documents of {collection}", tuple(unique.values()), origin=origin)


def facts_of(document: Document) -> Iterator[Fact]:
    """The sentences of a document that hold a fact, each with its first one."""
    for start, end in sentence_spans(document.text):
        sentence = " ".join(document.text[start:end].split())
        count = len(words(sentence))
        whole = sentence.endswith((".", "!", "。", "।")) and sentence[0].isupper()
        if not whole or not _SHORTEST_SENTENCE <= count <= _LONGEST_SENTENCE:
            continue  # a row of a table, a heading, the foot of a page
        for kind, asked in _ASKED:
            spans = offers(kind, "", sentence)
            if spans:
                begin, stop = spans[0]
                rest = words(f"{sentence[:begin]} {sentence[stop:]}")
                if len(_content(rest)) >= _FEWEST_WORDS:
                    answer = sentence[begin:stop].strip()
                    yield Fact(document, sentence, asked, answer, tuple(rest))
                break


def _rarity(documents: Sequence[Document]) -> Counter[str]:
    """In how many documents a term stands."""
    return Counter(term for document in documents for term in set(terms(document.text)))


def _chosen(facts: Sequence[Fact], count: int, seed: int) -> list[Fact]:
    """An even sample over the documents: each gives one sentence in turn, in a drawn order."""
    generator = random.Random(seed)  # noqa: S311  a sample, no secret
    by_document: dict[str, list[Fact]] = {}
    for fact in facts:
        by_document.setdefault(fact.document.id, []).append(fact)
    piles = [by_document[key] for key in sorted(by_document, key=lambda one: _digest(seed, one))]
    for pile in piles:
        generator.shuffle(pile)
    chosen: list[Fact] = []
    while len(chosen) < count and any(piles):
        chosen += [pile.pop() for pile in piles if pile]
    return chosen[:count]


def _by_rule(fact: Fact, rarity: Counter[str], seed: int) -> Question:
    identity = _digest(seed, fact.document.id, fact.sentence)
    generator = random.Random(identity)  # noqa: S311  a sample, no secret
    content = _content(fact.rest)
    wanted = min(_MOST_WORDS, max(_FEWEST_WORDS, round(len(content) * 0.6)))
    # Rare words are remembered more often than common ones, but not always.
    weight = {word: generator.random() ** (0.2 + _commonness(word, rarity)) for word in content}
    kept = set(sorted(content, key=lambda word: -weight[word])[:wanted])
    text = f"{fact.kind} {' '.join(word for word in content if word in kept)}?"
    return _question(fact, identity, text[0].upper() + text[1:], fact.answer)


def _content(given: Sequence[str]) -> list[str]:
    """The words that carry meaning, each once; figures are no way to ask."""
    return [word for word in dict.fromkeys(given)
            if word not in STOP_WORDS and len(word) > 1 and not word[0].isdigit()]  # fmt: skip


def _commonness(word: str, rarity: Counter[str]) -> float:
    held = [rarity[term] for term in terms(word)]
    return min(held, default=0) / max(1, max(rarity.values(), default=1))


class _Asked(BaseModel):
    question: str = Field(min_length=5)
    answer: str = Field(min_length=1)


async def _by_model(engine: Engine, fact: Fact) -> Question | None:
    """A model's question; None when its answer does not stand in the sentence."""
    if not isinstance(engine.provider, Chat):
        return None
    prompt = render("question", passage=fact.sentence, title=fact.document.name)
    try:
        found = _Asked.model_validate(await ask_json(engine.provider, prompt, _Asked))
    except ProviderError:
        return None
    if found.answer.casefold() not in fact.sentence.casefold():
        return None
    identity = _digest(0, fact.document.id, fact.sentence)
    return _question(fact, identity, " ".join(found.question.split()), found.answer)


def _question(fact: Fact, identity: str, text: str, answer: str) -> Question:
    target = Target(f"{fact.document.name}#{identity}", document=fact.document.name,
                    text=fact.sentence)  # fmt: skip
    return Question(identity, text, (target,), (answer,), answerable=True)


def _digest(seed: int, *parts: str) -> str:
    return hashlib.sha256("\0".join([str(seed), *parts]).encode()).hexdigest()[:12]
