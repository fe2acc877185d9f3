"""Questions made from documents: repeatable, answerable where they say so, with a model or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import InputError, ProviderError, SettingsError
from ragstone.evaluate.questions import find_facts, make_questions
from ragstone.evaluate.run import Options, ask_question
from ragstone.text import split_words
from ragstone.types import Document

from ..providers.stand_in import served
from .build import inside


def document(text: str) -> Document:
    return Document("d", "default", "s", "a.txt", "text/plain", "0", text=text)


async def test_without_a_model_the_questions_are_words_to_search_for(
    sample_engine: Engine,
) -> None:
    made = await make_questions(sample_engine, "default", count=40, seed=3)
    assert not made.has_answers
    for question in made.questions:
        (target,) = question.targets
        words = question.text.split()
        assert 3 <= len(words) <= 7
        assert set(words) <= set(split_words(target.text))


def test_headings_rows_and_page_numbers_are_no_facts() -> None:
    text = "# Edition of 2024\n\n| 2024 | 2025 | 12 | gate | tower |\n\nPage 7 of 12\n\nOn 3 May."
    assert not list(find_facts(document(text)))


async def test_the_same_seed_makes_the_same_questions(sample_engine: Engine) -> None:
    first, again, other = [
        await make_questions(sample_engine, "default", count=30, seed=seed) for seed in (7, 7, 8)
    ]
    assert first == again
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert len(first.questions) == 30
    assert len({one.id for one in first.questions}) == 30


async def test_an_empty_collection_makes_no_questions(engine: Engine) -> None:
    with pytest.raises(InputError, match="has no sentence"):
        await make_questions(engine, "default", count=5, seed=0)


async def test_a_model_is_asked_for_only_where_there_is_one(sample_engine: Engine) -> None:
    with pytest.raises(SettingsError, match="--with-model needs a provider"):
        await make_questions(sample_engine, "default", count=1, seed=0, use_model=True)


async def test_a_model_writes_questions_and_some_have_their_document_hidden(
    tmp_path: Path,
) -> None:
    for number in range(5):
        text = f"The lease of the upper meadow {number} ends on 30 June 2039 without any notice."
        (tmp_path / f"lease{number}.txt").write_text(text)
    async with served() as model:
        flags = {"provider.name": "openai", "provider.base_url": model.url, "provider.api_key": "k"}
        async with Engine(inside(tmp_path, **flags)) as engine:
            await engine.ingest([tmp_path / "*.txt"])
            question = "When does the meadow's lease run out?"
            model.words = [json.dumps({"question": question, "answer": "30 June 2039"})]
            made = await make_questions(engine, "default", count=5, seed=0, use_model=True)
            assert {one.text for one in made.questions} == {question}
            assert [one.answers for one in made.questions] == [(), *[("30 June 2039",)] * 4]
            hidden = made.questions[0]
            assert hidden.answerable is False
            outcome = await ask_question(engine, hidden, Options(answers=False), "default")
            assert outcome.ranking
            assert hidden.hidden_documents[0] not in outcome.ranking
            model.words = [json.dumps({"question": "When was the war?", "answer": "in 1914"})]
            with pytest.raises(ProviderError, match="no question"):
                await make_questions(engine, "default", count=1, seed=0, use_model=True)
