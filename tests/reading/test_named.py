"""A question that names a document by its file is answered from that document."""

from __future__ import annotations

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.reading.choose import AnswerChooser
from ragstone.reading.named import find_named_document
from ragstone.reading.question import parse_question
from ragstone.reading.read import ShortAnswer
from ragstone.reading.write import cut_at_bracket, find_short_answer
from ragstone.types import Chunk, Hit, Scores, Source

TERMS = "This licence ends after 30 days without a repair. Either side may then ask for a new one."


def source(name: str, text: str = TERMS, number: int = 1) -> Source:
    chunk = Chunk(name, 0, text, 0, len(text), name)
    return Source(number, Hit(chunk, 1.0 / number, "hybrid", Scores(similarity=0.6)), text)


SOURCES = (
    source("licences/QPL-3.txt"),
    source("zebra_2.0.md", number=2),
    source("employee-handbook.pdf", number=3),
    source("minutes/2025-board-meeting.txt", number=4),
)


@pytest.mark.parametrize(
    ("question", "left", "document"),
    [
        ("How long is the offer valid under the QPL?", "How long is the offer valid?", 0),
        ("How long is the offer valid under QPLv3?", "How long is the offer valid?", 0),
        ("May I sell copies of a QPL program?", "May I sell copies of a program?", 0),
        ("When does the QPL end?", "When does this document end?", 0),
        ("what happens under Zebra if I sue?", "what happens if I sue?", 1),
        ("According to the employee handbook, who pays?", "who pays?", 2),
        ("employee handbook notice period", "notice period", 2),
        ("who was present according to the board meeting", "who was present", 3),
        ("Wie lange gilt das laut QPL?", "Wie lange gilt das?", 0),
    ],
)
def test_the_name_is_taken_out(question: str, left: str, document: int) -> None:
    found = find_named_document(question, SOURCES)
    assert found is not None
    assert found.question == left
    assert found.sources == (SOURCES[document],)


@pytest.mark.parametrize(
    "question",
    [
        "How long is the offer valid?",
        "Is the QPL stricter than Zebra?",  # two documents
        "When does QPL 2 end?",  # another version
        "Who are the three of them?",
        "How many employees are there?",  # not the whole name
        "Who was elected at the board meeting of 2022?",
        "Who signs the employee handbook?",
        "Who was present at the board meeting?",  # "at" does not introduce a document
        "Wann endet die QPL?",  # German nouns have capitals
    ],
)
def test_no_document_is_named(question: str) -> None:
    assert find_named_document(question, SOURCES) is None


def test_a_name_that_the_text_repeats_is_left_in_the_question() -> None:
    text = "The zebra is striped. A zebra eats grass."
    assert (
        find_named_document("What is the colour of the zebra?", [source("zebra.md", text)]) is None
    )


def test_a_part_of_a_name_at_the_end_will_do_where_nothing_else_answers() -> None:
    lease = source("contracts/lease-of-the-ridge.pdf", "The rent is EUR 21,690 a year.")
    assert find_named_document("How much is the rent of the ridge?", [lease]) is None
    found = find_named_document("How much is the rent of the ridge?", [lease], in_part=True)
    assert found is not None
    assert found.question == "How much is the rent?"
    assert find_named_document("Who owns the ridge?", [lease], in_part=True) is None


def test_a_subject_that_is_also_a_file_name_is_searched_everywhere(
    embedder: OnnxEmbedder,
) -> None:
    levels = source("parking.txt", "There are three levels. The lowest one is for staff.")
    tariff = source("tariff.txt", "An hour of parking costs 4 euros. A day costs 20 euros.", 2)
    chosen = AnswerChooser(embedder).choose("How much is an hour of parking?", (levels, tariff))
    assert "4 euros" in chosen.parts[0].sentences[0].text


def test_the_named_document_answers_and_not_its_neighbour(embedder: OnnxEmbedder) -> None:
    other = TERMS.replace("30 days", "90 days")
    sources = (source("zebra.txt", other), source("QPL-3.txt", number=2))
    chosen = AnswerChooser(embedder).choose("After how many days does the QPL end?", sources)
    assert "30 days" in chosen.parts[0].sentences[0].text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("20 to 30 times) than normal", "20 to 30 times"),
        ("900 bytes (the default)", "900 bytes (the default)"),
        ("three years (and", "three years "),
    ],
)
def test_a_short_answer_has_no_half_bracket(text: str, left: str) -> None:
    assert cut_at_bracket(text) == left


@pytest.mark.parametrize("mark", ["b) ", "(2) ", "1. ", ""])
def test_a_short_answer_has_no_list_mark(mark: str) -> None:
    question = parse_question("How long is the notice period?")
    assert find_short_answer(question, ShortAnswer(f"{mark}14 days", 5.0)) == "14 days"
