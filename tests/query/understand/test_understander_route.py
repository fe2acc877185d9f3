"""Routes and parts of questions, without any model."""

from __future__ import annotations

import pytest

from ragstone.query.understand.understander import add_parts, choose_route
from ragstone.types import Expansion, Query


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("How long is the notice period?", "simple"),
        ("Compare the lease with the catering contract", "complex"),
        ("What is the difference between A and B?", "complex"),
        ("Lease vs purchase", "complex"),
        ("Who signed it? And when?", "complex"),
        ("When does it begin and when does it end?", "complex"),
        ("Worin unterscheiden sich die beiden Verträge?", "complex"),
        ("В чём разница между договорами?", "complex"),
        ("Summarize the safety policy", "summarize"),
        ("Fasse den Bericht zusammen", "summarize"),
        ("Give me an overview of the manual", "summarize"),
        ("Is the indifferent observer mentioned?", "simple"),
    ],
)
def test_the_way_of_a_question(text: str, way: str) -> None:
    assert choose_route(text, "question") == way


def test_a_question_with_two_parts_is_searched_in_parts() -> None:
    query = add_parts(Query("q", "What is the rent of the ridge, and who signed the lease?"))
    assert [one.kind for one in query.expansions] == ["sub-question", "sub-question"]
    assert add_parts(Query("q", "What is the rent of the ridge?")).expansions == ()


def test_the_parts_of_a_model_are_kept() -> None:
    query = Query("q", "What is A, and who is B?", expansions=(Expansion("variant", "A"),))
    assert add_parts(query).expansions == (Expansion("variant", "A"),)
