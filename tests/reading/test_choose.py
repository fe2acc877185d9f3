"""The extractive answerer: what it quotes, in which order, and when it says nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.engine import Engine
from ragstone.evidence import ANSWER_FROM
from ragstone.models.cache import CachedEmbedder
from ragstone.models.embedder import OnnxEmbedder
from ragstone.reading.choose import AnswerChooser, load_weights
from ragstone.reading.extractive import ExtractiveProvider
from ragstone.reading.features import list_candidates
from ragstone.reading.write import format_row, sort_in_reading_order
from ragstone.types import NO_ANSWER, Chunk, Hit, Prompt, Scores, Source


def source(text: str, number: int = 1, *, headings: tuple[str, ...] = ()) -> Source:
    chunk = Chunk(f"doc{number}", 0, text, 0, len(text), f"{number}.md", heading_path=headings)
    hit = Hit(chunk, 1.0 / number, "hybrid", Scores(similarity=0.6))
    return Source(number, hit, text)


async def said(question: str, sources: Sequence[Source], embedder: OnnxEmbedder) -> str:
    provider = ExtractiveProvider(AnswerChooser(embedder))
    return "".join([p async for p in provider.stream(Prompt(question, tuple(sources), ()))])


LEASE = (
    "The lease begins on 1 July 2009 and is concluded for 30 years. It ends on 30 June 2039 "
    "without notice being required. The rent is EUR 18,400 per year. Dogs are welcome."
)


async def test_it_quotes_the_sentence_that_answers(embedder: OnnxEmbedder) -> None:
    text = await said("How much is the rent?", [source(LEASE)], embedder)
    assert text.startswith("The rent is EUR 18,400 per year. [Source 1]")


async def test_a_sentence_that_points_back_brings_the_one_before(embedder: OnnxEmbedder) -> None:
    text = await said("When does it end without notice?", [source(LEASE)], embedder)
    assert "concluded for 30 years. It ends on 30 June 2039" in text


CHINESE = "索林湖深386米，是全国最深的湖。湖水是咸的，因为它没有出水口。湖里只生活着三种鱼。"
HINDI = (
    "सोरिन झील 386 मीटर गहरी है और देश की सबसे गहरी झील है। झील में मछलियों की केवल तीन प्रजातियाँ रहती हैं।"
)


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        (CHINESE, "索林湖有多深？", "386米"),
        (CHINESE, "湖水为什么是咸的？", "没有出水口"),
        (HINDI, "सोरिन झील कितनी गहरी है?", "386 मीटर"),
    ],
)
async def test_text_in_an_unknown_script_is_compared_by_its_words(
    text: str, question: str, answer: str, embedder: OnnxEmbedder
) -> None:
    assert answer in await said(question, [source(text)], embedder)


@pytest.mark.parametrize(
    ("text", "question"),
    [(CHINESE, "铁路公司为什么想取消这条线路？"), (HINDI, "वेल्ड की मृत्यु किस बीमारी से हुई?")],
)
async def test_an_unknown_script_is_no_answer_by_itself(
    text: str, question: str, embedder: OnnxEmbedder
) -> None:
    assert (await said(question, [source(text)], embedder)).startswith(NO_ANSWER)


async def test_nothing_is_said_beside_the_subject(embedder: OnnxEmbedder) -> None:
    assert await said("How do I boil an egg?", [source(LEASE)], embedder) == NO_ANSWER


async def test_nothing_is_said_without_sources(embedder: OnnxEmbedder) -> None:
    assert await said("When does the lease end?", [], embedder) == NO_ANSWER


TABLE = """Prices

| Ticket | Day visit | Evening programme |
|---|---|---|
| Adult | €16 | €24 |
| Child aged 6 to 15 | €8 | €12 |
"""


async def test_a_row_of_a_table_is_said_with_its_header(embedder: OnnxEmbedder) -> None:
    text = await said("What does an adult ticket for the evening cost?", [source(TABLE)], embedder)
    assert "Adult: Day visit €16, Evening programme €24. [Source 1]" in text


def test_the_rule_and_the_header_of_a_table_are_no_candidates() -> None:
    assert [one.text for one in list_candidates("Why?", [source(TABLE)])] == [
        "| Adult | €16 | €24 |", "| Child aged 6 to 15 | €8 | €12 |",
    ]  # fmt: skip


def test_a_row_with_missing_cells_is_quoted_as_it_stands() -> None:
    broken = TABLE.replace("| €16 | €24 |", "| €16 |")
    assert format_row(list_candidates("Why?", [source(broken)])[0]) == "| Adult | €16 |"


def test_a_sentence_that_only_repeats_the_question_is_no_candidate() -> None:
    found = list_candidates(
        "What is the password of the guest Wi-Fi?", [source("Guest Wi-Fi. Ask us.")]
    )
    assert [one.text for one in found] == ["Ask us."]


def test_the_same_sentence_in_two_sources_is_one_candidate() -> None:
    text = "The café opens at nine."
    assert len(list_candidates("Why?", [source(text, 1), source(text, 2)])) == 1


def test_sentences_of_a_source_are_in_the_order_of_its_text(embedder: OnnxEmbedder) -> None:
    found = list_candidates(
        "Why?", [source("One is first. Two is second.", 1), source("Three is third.", 2)]
    )
    ordered = sort_in_reading_order([found[2], found[1], found[0]])
    assert [one.text for one in ordered] == ["Three is third.", "One is first.", "Two is second."]


async def test_a_marker_inside_a_document_is_quoted_as_no_marker(embedder: OnnxEmbedder) -> None:
    text = await said("How much is the rent?", [source("The rent is EUR 5 [Source 3].")], embedder)
    assert text == "The rent is EUR 5 (Source no. 3). [Source 1]"


words = st.lists(
    st.sampled_from(
        [
            "the",
            "rent",
            "lease",
            "ends",
            "2039",
            "EUR",
            "it",
            "|",
            "#",
            "[Source",
            "2]",
            ".",
            "!",
            "é",
            "🔭",
        ]
    )
)


@settings(max_examples=60, deadline=None)
@given(st.lists(words.map(" ".join), min_size=1, max_size=4))
def test_whatever_the_text_only_its_own_spans_are_chosen(
    embedder: OnnxEmbedder, texts: list[str]
) -> None:
    sources = [source(text, number) for number, text in enumerate(texts, 1)]
    choice = AnswerChooser(embedder).choose("When does the lease end?", sources)
    assert 0.0 <= choice.probability <= 1.0
    chosen = choice.parts[0].sentences
    spans = [(one.source.number, one.start, one.end) for one in chosen]
    assert len(set(spans)) == len(spans)
    for one in chosen:
        start, end = one.passage.clean.locate(one.start, one.end)
        assert one.text == one.source.text[start:end]


def test_remembered_vectors_are_the_embedders_own(embedder: OnnxEmbedder) -> None:
    remembered = CachedEmbedder(embedder, max_vectors=2)
    texts = ["rent", "lease", "rent", "dog"]
    for _ in range(2):
        assert np.allclose(remembered.embed(texts), embedder.embed(texts), atol=1e-3)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who gave the refractor to the society in 1911?", "Eleanor Morrow"),
        ("What does an adult pay for an evening programme?", "€24"),
        ("Was kostet der Audioguide?", "4 €"),
    ],
)
async def test_the_sample_documents_answer(
    sample_engine: Engine, question: str, answer: str
) -> None:
    assert answer in (await sample_engine.ask(question)).text


def test_answers_are_given_from_one_bar_on() -> None:
    """What is small talk and what is an answer is decided at the same probability."""
    assert load_weights().threshold == ANSWER_FROM
