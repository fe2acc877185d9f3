"""The documents decide what a follow-up means, and no answer is given twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.types import Message

from ..conftest import settings_in
from .scripted import ScriptedProvider

LEASE = (
    "The lease of the ridge was signed by Ada Brandt. The rent of the ridge is 900 euros a month. "
    "The ridge may be entered from six in the morning."
)
CAFE = "The café sells soup at noon. The rent of the café is 300 euros a month."
HISTORY = [Message("user", "What is the rent of the ridge?"), Message("assistant", "900.")]


@pytest.fixture
async def engine(tmp_path: Path, embedder: OnnxEmbedder) -> AsyncIterator[Engine]:
    for name, text in (("lease.txt", LEASE), ("cafe.txt", CAFE)):
        (tmp_path / name).write_text(text)
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    await engine.ingest([tmp_path / "lease.txt", tmp_path / "cafe.txt"])
    yield engine
    engine.close()


async def test_a_second_question_is_not_the_first_answer_again(engine: Engine) -> None:
    first = await engine.ask("What is the rent of the ridge?", session_id="s")
    second = await engine.ask("And who signed the lease?", session_id="s")
    assert "900" in first.text
    assert "Ada Brandt" in second.text


async def test_undo_searches_what_was_typed(engine: Engine) -> None:
    await engine.ask("What is the rent of the ridge?", session_id="s")
    answer = await engine.ask("And of the café?", session_id="s", as_typed=True)
    assert answer.searched_as == ""
    assert answer.detected_intent == "question"


async def test_a_whole_question_stays_itself(engine: Engine) -> None:
    alone = await engine.ask("What does the café sell at noon?")
    await engine.ask("Who signed the lease of the ridge?", session_id="s")
    inside = await engine.ask("What does the café sell at noon?", session_id="s")
    assert inside.text == alone.text
    assert inside.searched_as == ""


async def test_more_shows_what_comes_next(engine: Engine) -> None:
    await engine.ask("Who signed the lease of the ridge?", session_id="s")
    more = await engine.ask("tell me more", session_id="s")
    assert more.status == "answered"
    assert "Ada Brandt" not in more.text
    assert more.citations


async def test_a_bad_rewrite_does_not_lose_a_good_question(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "lease.txt").write_text(LEASE)
    provider = ScriptedProvider({"<conversation>": '{"question": "Do penguins like jazz?"}'})
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "lease.txt"])
    answer = await engine.ask("and who signed it?", history=HISTORY)
    assert "penguins" not in answer.searched_as
    assert len(provider.asked) == 1
    engine.close()


async def test_a_whole_question_asks_no_model(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    (tmp_path / "lease.txt").write_text(LEASE)
    provider = ScriptedProvider({})
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "lease.txt"])
    await engine.ask("Who signed the lease of the ridge?", history=HISTORY)
    assert not provider.asked
    engine.close()


async def test_comparing_understands_a_follow_up(engine: Engine) -> None:
    both = await engine.compare("And of the café?", history=HISTORY)
    assert "café" in both.enhanced.searched_as
    assert both.baseline.searched_as == both.enhanced.searched_as
