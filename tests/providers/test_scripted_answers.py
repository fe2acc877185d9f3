"""Whatever a model writes, the engine's answer holds whole markers and resolved citations only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.events import Finished, Token
from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.types import NO_ANSWER

from ..conftest import settings_in

QUESTION = "What colour is the gate?"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    return tmp_path / "gate.txt"


@pytest.fixture
def scripted(tmp_path: Path, documents: Path) -> Iterator[tuple[Engine, ScriptedProvider]]:
    provider = ScriptedProvider(["The gate is green [Source 1]."])
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder(), provider=provider)
    yield engine, provider
    engine.close()


async def test_a_cited_answer_is_resolved_and_grounded(
    scripted: tuple[Engine, ScriptedProvider], documents: Path
) -> None:
    engine, provider = scripted
    await engine.ingest([documents])
    answer = await engine.ask(QUESTION)
    assert (answer.status, answer.provider, answer.model) == ("answered", "scripted", "script")
    assert answer.text == "The gate is green [Source 1]."
    assert answer.is_grounded
    citation = answer.citations[0]
    text = engine.catalog.document(citation.document_id).text
    assert text[citation.start : citation.end] == citation.snippet
    assert "gate is green" in citation.snippet
    assert "The gate is green." in provider.prompts[0].messages[0].content


@pytest.mark.parametrize(
    "pieces",
    [
        ["The gate is green [Source 1]."],
        ["The gate is green [Sou", "rce ", "1", "]."],
        list("The gate is green [Source 1]."),
    ],
)
async def test_a_marker_split_over_pieces_is_never_shown_half(
    tmp_path: Path, documents: Path, pieces: list[str]
) -> None:
    engine = Engine(
        settings_in(tmp_path / "data"), embedder=HashEmbedder(), provider=ScriptedProvider(pieces)
    )
    await engine.ingest([documents])
    events = [event async for event in engine.stream(QUESTION)]
    engine.close()
    tokens = [event.text for event in events if isinstance(event, Token)]
    assert all(token.count("[") == token.count("]") for token in tokens)
    assert isinstance(events[-1], Finished)
    assert "".join(tokens) == events[-1].answer.text == "The gate is green [Source 1]."


async def test_a_marker_that_points_nowhere_is_removed_and_noted(
    scripted: tuple[Engine, ScriptedProvider], documents: Path
) -> None:
    engine, provider = scripted
    provider.pieces = ("The gate is green [Source 1]", " [Source 7].")
    await engine.ingest([documents])
    answer = await engine.ask(QUESTION)
    assert "[Source 7]" not in answer.text
    assert any("[Source 7]" in note for note in answer.notes)
    assert {citation.number for citation in answer.citations} == {1}


async def test_an_answer_that_no_source_holds_is_replaced_or_not_grounded(
    scripted: tuple[Engine, ScriptedProvider], documents: Path
) -> None:
    engine, provider = scripted
    provider.pieces = ("Elephants invented purple umbrellas yesterday evening [Source 1].",)
    await engine.ingest([documents])
    answer = await engine.ask(QUESTION)
    quoted = answer.degraded == ("extractive_answer",) and "Elephants" not in answer.text
    assert quoted or not answer.is_grounded


@pytest.mark.parametrize("pieces", [[], [""], ["  \n"], [NO_ANSWER]])
async def test_silence_and_refusal_are_abstentions(
    scripted: tuple[Engine, ScriptedProvider], documents: Path, pieces: list[str]
) -> None:
    engine, provider = scripted
    provider.pieces = tuple(pieces)
    await engine.ingest([documents])
    answer = await engine.ask(QUESTION)
    assert (answer.status, answer.text, answer.citations) == ("abstained", NO_ANSWER, ())
    assert answer.confidence == 0


async def test_an_answer_of_markers_alone_does_not_break(
    scripted: tuple[Engine, ScriptedProvider], documents: Path
) -> None:
    engine, provider = scripted
    provider.pieces = ("[Source 1]",)
    await engine.ingest([documents])
    assert (await engine.ask(QUESTION)).query_id
