"""With HOLD_UNVERIFIED only checked sentences go out, and what went out is the answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.engine import Engine
from ragstone.events import ClaimsChecked, Finished, Token
from ragstone.query.check.hold import SentenceHold
from ragstone.query.ground.cite import MarkerStream, Notation
from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.types import NO_ANSWER

from ...conftest import settings_in
from ..build import sources

SOURCES = sources("The gate is green. It was painted in 2020.", "Dogs are welcome here.")
GOOD = ["The gate is green.", "Dogs are welcome here.", "It was painted in 2020."]
BAD = ["Bananas grow in Ecuador.", "The gate was painted in 2021."]


def held(pieces: list[str], *, drops: bool = True) -> SentenceHold:
    notation = Notation(SOURCES)
    stream = MarkerStream(notation)
    whole = [ready for piece in pieces if (ready := stream.feed(piece))] + [stream.close()]
    hold = SentenceHold(notation, drops)

    async def feed_all() -> str:
        return "".join([await hold.feed(piece) for piece in whole]) + await hold.close()

    assert asyncio.run(feed_all()) == hold.released
    return hold


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([*GOOD, *BAD]), max_size=5),
    st.sampled_from(["", " [Source 1]", " [Source 2]"]),
    st.integers(1, 30),
)
def test_whatever_the_pieces_only_supported_sentences_go_out(
    said: list[str], mark: str, size: int
) -> None:
    text = " ".join(f"{sentence}{mark}" for sentence in said)
    hold = held([text[at : at + size] for at in range(0, len(text), size)])
    for sentence in GOOD:
        assert hold.released.count(sentence) == said.count(sentence)
    for sentence in BAD:
        assert sentence not in hold.released
    assert len(hold.withheld) == sum(sentence in BAD for sentence in said)
    # however it was cut, the same goes out
    assert held([text]).released.split() == hold.released.split()


def test_markers_are_put_right_before_a_sentence_goes_out() -> None:
    assert held(["Dogs are welcome ", "here [Source 1]. The gate is", " green."]).released == (
        "Dogs are welcome here. [Source 2] The gate is green. [Source 1]"
    )


def test_markers_alone_can_be_held() -> None:
    hold = held(["The gate is green [Source 2]. Bananas grow in Ecuador [Source 1]."], drops=False)
    assert hold.released == "The gate is green. [Source 1] Bananas grow in Ecuador."
    assert hold.withheld == []


def test_a_list_waits_for_the_marker_at_its_end() -> None:
    items = "- The gate is green.\n- It was painted in 2020. [Source 1]"
    text = f"We know:\n{items}\n\nDogs are welcome here."
    whole = held([text]).released
    assert held(list(text)).released == whole
    assert whole == f"{text} [Source 2]"


def test_a_refusal_goes_out() -> None:
    assert held([NO_ANSWER]).released == NO_ANSWER


@pytest.mark.parametrize("pieces", [["The gate is green. ", *BAD], [BAD[0]]])
async def test_the_stream_is_the_answer(tmp_path: Path, pieces: list[str]) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    provider = ScriptedProvider([" ".join(pieces)])
    flags = {"HOLD_UNVERIFIED": True, "provider.name": "extractive"}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder(),
                    provider=provider)  # fmt: skip
    await engine.ingest([tmp_path / "gate.txt"])
    events = [event async for event in engine.stream("What colour is the gate?")]
    engine.close()
    tokens = [event for event in events if isinstance(event, Token)]
    last = events[-1]
    assert isinstance(last, Finished)
    assert all(token.verified for token in tokens)
    assert "".join(token.text for token in tokens).strip() == last.answer.text
    assert "Bananas" not in last.answer.text
    if last.answer.status == "answered":
        assert last.answer.is_grounded


ANSWER = "The gate is green. [Source 1] It was painted in 2021. [Source 1] The end is near."


@pytest.mark.parametrize("size", [1, 7, 200])
@pytest.mark.parametrize("holds", [True, False])
async def test_first_verdicts_point_to_the_text_that_went_out(
    tmp_path: Path, size: int, holds: bool
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    pieces = [ANSWER[at : at + size] for at in range(0, len(ANSWER), size)]
    flags = {"HOLD_UNVERIFIED": holds, "check.max_iterations": 0}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder(),
                    provider=ScriptedProvider(pieces))  # fmt: skip
    await engine.ingest([tmp_path / "gate.txt"])
    question = "What colour is the gate?"
    events = [event async for event in engine.stream(question, mark_claims=True)]
    unmarked = [event async for event in engine.stream(question)]
    engine.close()
    shown = "".join(event.text for event in events if isinstance(event, Token))
    reports = [event for event in events if isinstance(event, ClaimsChecked)]
    claims = [claim for report in reports for claim in report.claims]
    assert [shown[claim.start : claim.end] for claim in claims] == [claim.text for claim in claims]
    verdicts = {claim.text: claim.verdict for claim in claims}
    assert verdicts["The gate is green."] == "supported"
    withheld = sum(report.withheld for report in reports)
    if holds:
        assert "2021" not in shown
        assert withheld == 2
    else:
        assert verdicts["It was painted in 2021."] == "contradicted"
        assert withheld == 0
        if size < 200:  # the first verdict comes while the rest is written
            assert events.index(reports[0]) < len(events) - 3
    assert not any(isinstance(event, ClaimsChecked) for event in unmarked)
    last, plain = events[-1], unmarked[-1]
    assert isinstance(last, Finished)
    assert isinstance(plain, Finished)
    assert last.answer.text == plain.answer.text
    assert last.answer.claims == plain.answer.claims


async def test_without_it_tokens_are_marked_unverified(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder(),
                    provider=ScriptedProvider(["The gate is green."]))  # fmt: skip
    await engine.ingest([tmp_path / "gate.txt"])
    events = [event async for event in engine.stream("What colour is the gate?")]
    engine.close()
    assert not any(event.verified for event in events if isinstance(event, Token))


@pytest.mark.parametrize(
    ("said", "goes_out"),
    [("Green.", "Doors: Green. [Source 1]"), ("Red.", NO_ANSWER)],
)
def test_the_place_of_a_source_goes_out_with_its_quotation_or_not_at_all(
    said: str, goes_out: str
) -> None:
    (source,) = sources("Green.")
    chunk = replace(source.hit.chunk, heading_path=("Doors",))
    hold = SentenceHold(Notation((replace(source, hit=replace(source.hit, chunk=chunk)),)))

    async def feed_all() -> None:
        for piece in ("Doors:", " ", said, " ", "[Source 1]", "\n\n"):
            await hold.feed(piece)
        await hold.close()

    asyncio.run(feed_all())
    assert hold.released.strip() == goes_out
