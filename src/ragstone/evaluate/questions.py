"""Make questions from the user's own documents, without a model or with one.

A collection in → a dataset out; the same documents and the same seed give the same questions.

Without a model a question is some words of a sentence, the rare ones more often, as a person who
remembers the sentence would type them (simulated known-item queries, Azzopardi et al. 2007). They
measure the search and not the answers, and favour keyword search: good for comparing settings with
each other, too easy for claims about quality. A model writes whole questions with answers; one in
five is made unanswerable by hiding its document.
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
from ragstone.evaluate.workbench import Progress, ignore_progress
from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.prompts import render
from ragstone.protocols import Chat
from ragstone.query.understand.rewrite import ask_json
from ragstone.text import find_sentence_spans, split_words
from ragstone.types import Document

_MIN_SENTENCE_WORDS, _MAX_SENTENCE_WORDS = 8, 60
# A person types a handful of words.
_MIN_WORDS, _MAX_WORDS = 3, 7
_UNANSWERABLE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence to ask for."""

    document: Document
    sentence: str

    @property
    def id(self) -> str:
        return _hash_parts(self.document.id, self.sentence)

    def build_question(self, text: str, answers: tuple[str, ...] = ()) -> Question:
        name = self.document.name
        target = Target(f"{name}#{self.id}", document=name, text=self.sentence)
        return Question(self.id, text, (target,), answers, answerable=True if answers else None)


async def make_questions(
    engine: Engine,
    collection: str,
    *,
    count: int,
    seed: int,
    use_model: bool = False,
    progress: Progress = ignore_progress,
) -> Dataset:
    """Make up to `count` questions: words of the documents, or what the model asks."""
    if use_model:
        require_language_model(engine, "--with-model")
    documents = [
        engine.catalog.document(document.id)
        for document in engine.documents(collection)
        if document.status == "indexed"
    ]
    facts = [fact for document in documents for fact in find_facts(document)]
    if not facts:
        raise InputError(
            f"The collection '{collection}' has no sentence to make a question from.",
            hint="Ingest documents with whole sentences first: ragstone ingest DOCUMENTS/",
        )
    chosen = _sample_facts(facts, count, seed)
    if use_model:
        questions = await _ask_by_model(engine, chosen, progress)
    else:
        counts = Counter(term for doc in documents for term in set(extract_terms(doc.text)))
        questions = [fact.build_question(_choose_words(fact, counts)) for fact in chosen]
    origin = f"{len(documents)} documents, seed {seed}"
    return Dataset(f"documents of {collection}", tuple(questions), origin=origin)


def find_facts(document: Document) -> Iterator[Fact]:
    """Yield the sentences with enough words to find them by; each once."""
    seen: set[str] = set()
    for start, end in find_sentence_spans(document.text):
        sentence = " ".join(document.text[start:end].split())
        words = split_words(sentence)
        # Otherwise a table row, a heading, a page footer.
        is_whole = sentence.endswith((".", "!", "。", "।")) and sentence[0].isupper()
        is_fit = _MIN_SENTENCE_WORDS <= len(words) <= _MAX_SENTENCE_WORDS
        if is_whole and is_fit and len(_keep_content_words(words)) >= _MIN_WORDS:
            if sentence not in seen:
                yield Fact(document, sentence)
            seen.add(sentence)


def _sample_facts(facts: Sequence[Fact], count: int, seed: int) -> list[Fact]:
    """Sample evenly over the documents: each gives one sentence in turn, in a random order."""
    generator = random.Random(seed)  # noqa: S311  a sample, no secret
    piles: dict[str, list[Fact]] = {}
    for fact in facts:
        piles.setdefault(fact.document.id, []).append(fact)
    left = [piles[key] for key in sorted(piles, key=lambda key: _hash_parts(str(seed), key))]
    for pile in left:
        generator.shuffle(pile)
    chosen: list[Fact] = []
    while len(chosen) < count and any(left):
        chosen += [pile.pop() for pile in left if pile]
    return chosen[:count]


def _choose_words(fact: Fact, counts: Counter[str]) -> str:
    """Choose words of a sentence: people remember rare ones more often, but not always."""
    generator = random.Random(fact.id)  # noqa: S311  a sample, no secret
    content = _keep_content_words(split_words(fact.sentence))
    most = max(counts.values(), default=1)
    weights = {}
    for word in content:
        rarest = min((counts[term] for term in extract_terms(word)), default=0)
        weights[word] = generator.random() ** (0.2 + rarest / most)
    length = min(_MAX_WORDS, max(_MIN_WORDS, round(len(content) * 0.6)))
    chosen = sorted(content, key=lambda word: -weights[word])[:length]
    return " ".join(word for word in content if word in chosen)


def _keep_content_words(words: Sequence[str]) -> list[str]:
    """Drop stop words, single letters, numbers and repetitions."""
    return [
        word
        for word in dict.fromkeys(words)
        if word not in STOP_WORDS and len(word) > 1 and not word[0].isdigit()
    ]


class _ModelQuestion(BaseModel):
    question: str = Field(min_length=5)
    answer: str = Field(min_length=1)


async def _ask_by_model(
    engine: Engine, facts: Sequence[Fact], progress: Progress
) -> list[Question]:
    """Let a model write the questions; those whose answer is not in their sentence are dropped."""
    questions: list[Question] = []
    names: list[str] = []
    for number, fact in enumerate(facts):
        progress("making questions", number, len(facts))
        if question := await _ask_for_question(engine, fact):
            questions.append(question)
            names.append(fact.document.name)
    if not questions:
        raise ProviderError(
            "The model wrote no question that its sentence answers.",
            hint="Try another model, or leave out --with-model.",
        )
    hidden = int(len(questions) * _UNANSWERABLE_SHARE) if len(set(names)) > 1 else 0
    for at in range(hidden):
        questions[at] = replace(
            questions[at],
            id=f"{questions[at].id}-hidden",
            targets=(),
            answers=(),
            answerable=False,
            hidden_documents=(names[at],),
        )
    return questions


async def _ask_for_question(engine: Engine, fact: Fact) -> Question | None:
    assert isinstance(engine.provider, Chat)
    prompt = render("question", passage=fact.sentence, title=fact.document.name)
    try:
        found = await ask_json(engine.provider, prompt, _ModelQuestion)
        reply = _ModelQuestion.model_validate(found)
    except ProviderError:
        return None
    if reply.answer.casefold() not in fact.sentence.casefold():
        return None
    return fact.build_question(" ".join(reply.question.split()), (reply.answer,))


def _hash_parts(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
