"""Questions made from documents: repeatable, answerable where they say so, with a model or not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import InputError, SettingsError
from ragstone.evaluate.questions import find_facts, make_questions
from ragstone.evaluate.run import Options, ask_question
from ragstone.text import split_words
from ragstone.types import Document

from ..providers.stand_in import served
from .build import inside


def document(text: str) -> Document:
    return Document("d", "default", "s", "a.txt", "text/plain", "0", text=text)


def test_a_fact_is_the_answer_and_leaves_the_question() -> None:
    text = "The lease of the upper meadow ends on 30 June 2039 without further notice."
    (fact,) = find_facts(document(text))
    assert fact.question == "When does the lease of the upper meadow end?"
    assert fact.answer == "30 June 2039"


def test_where_no_rule_makes_a_question_the_other_words_are_searched() -> None:
    text = "Whoever rents the upper meadow, which is never mown before July, pays EUR 20 for hay."
    (fact,) = find_facts(document(text))
    assert (fact.question, fact.answer) == ("", "EUR 20")
    assert not set(split_words(fact.answer)) & set(fact.rest)


async def test_questions_are_whole_as_long_as_there_are_enough(sample_engine: Engine) -> None:
    made = await make_questions(sample_engine, "default", count=12, seed=3)
    assert all(re.match(r"(?:\w+ )?(?:[Ww]h|How )", one.text) for one in made.questions)
    more = await make_questions(sample_engine, "default", count=60, seed=3)
    searched = [one.text for one in more.questions if not one.text.endswith("?")]
    assert searched
    assert all(text == text.lower() for text in searched)


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


async def test_the_source_of_a_question_can_be_found_and_a_hidden_one_cannot(
    sample_engine: Engine,
) -> None:
    made = await make_questions(sample_engine, "default", count=40, seed=1)
    hidden = [one for one in made.questions if one.answerable is False]
    assert len(hidden) == 8
    assert all(one.hidden_documents and not one.answers for one in hidden)
    outcome = await ask_question(sample_engine, hidden[0], Options(), "default")
    assert outcome.ranking
    assert hidden[0].hidden_documents[0] not in outcome.ranking
    names = {one.id: one.name for one in sample_engine.documents()}
    for question in made.questions:
        if question.answerable:
            (target,) = question.targets
            assert target.document in names.values()
            assert question.answers[0] in target.text


async def test_an_empty_collection_makes_no_questions(engine: Engine) -> None:
    with pytest.raises(InputError, match="has no sentence"):
        await make_questions(engine, "default", count=5, seed=0)


async def test_a_model_is_asked_for_only_where_there_is_one(sample_engine: Engine) -> None:
    with pytest.raises(SettingsError, match="--with-model needs a provider"):
        await make_questions(sample_engine, "default", count=1, seed=0, use_model=True)


async def test_a_model_may_write_the_questions(tmp_path: Path) -> None:
    file = tmp_path / "lease.txt"
    file.write_text("The lease of the upper meadow ends on 30 June 2039 without further notice.")
    async with served() as model:
        flags = {"provider.name": "openai", "provider.base_url": model.url, "provider.api_key": "k"}
        async with Engine(inside(tmp_path, **flags)) as engine:
            await engine.ingest([file])
            model.words = [
                json.dumps(
                    {"question": "When does the meadow's lease run out?", "answer": "30 June 2039"}
                )
            ]
            made = await make_questions(engine, "default", count=1, seed=0, use_model=True)
            assert made.questions[0].text == "When does the meadow's lease run out?"
            assert "upper meadow" in json.dumps(model.calls[0]["body"])
            model.words = [json.dumps({"question": "When was the war?", "answer": "in 1914"})]
            made = await make_questions(engine, "default", count=1, seed=0, use_model=True)
            assert made.questions[0].text.startswith("When ")
            assert "war" not in made.questions[0].text
