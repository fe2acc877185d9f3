"""Moderation: a question or an answer that a plug-in refuses goes no further."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.errors import ProviderError, RefusedError
from ragstone.events import Event, Finished, SourcesFound, Token
from ragstone.protocols import Moderated, Moderator
from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.testing.conformance import ModeratorConformance
from ragstone.types import Answer, Message

from ..conftest import settings_in
from ..patience import LONG_S

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "moderate.md"
QUESTION = "What colour is the gate?"
GREEN = "The gate is green [Source 1]."


class NoWord:
    """Refuses texts with a word in them; notes what it was asked."""

    name = "no_word"

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[tuple[str, str]] = []

    async def objection(self, kind: Moderated, text: str) -> str | None:
        self.asked.append((kind, text))
        return f"We do not speak of it in the {kind}." if self.word in text else None


class Broken:
    name = "broken"

    async def objection(self, kind: Moderated, text: str) -> str | None:
        raise ConnectionError("no route")


class Slow:
    name = "slow"

    async def objection(self, kind: Moderated, text: str) -> str | None:
        await asyncio.sleep(2 * LONG_S)
        return None


async def engine_with(tmp_path: Path, moderator: Moderator | None, **flags: Any) -> Engine:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    flags = {"understand.intent_enabled": False, "check.max_iterations": 0, **flags}
    engine = Engine(
        settings_in(tmp_path / "data", **flags), embedder=HashEmbedder(), moderator=moderator,
        provider=ScriptedProvider(["The gate ", "is green [Source 1]."]),
    )  # fmt: skip
    await engine.ingest([tmp_path / "gate.txt"])
    return engine


def prompts(engine: Engine) -> int:
    assert isinstance(engine.provider, ScriptedProvider)
    return len(engine.provider.prompts)


async def events(engine: Engine, question: str) -> list[Event]:
    return [event async for event in engine.stream(question)]


async def test_a_refused_question_is_neither_searched_nor_answered_nor_kept(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, NoWord("gate")) as engine:
        for asked in (engine.ask, engine.search, engine.compare):
            with pytest.raises(RefusedError, match="We do not speak of it in the question"):
                await asked(QUESTION)
        assert prompts(engine) == 0
        assert engine.history.queries() == []


async def test_what_the_user_said_before_is_judged_with_the_question(tmp_path: Path) -> None:
    moderator = NoWord("secret")
    async with await engine_with(tmp_path, moderator) as engine:
        before = [Message("user", "a secret"), Message("assistant", "Yes?")]
        with pytest.raises(RefusedError):
            await engine.ask(QUESTION, history=before)
        with pytest.raises(RefusedError):
            await engine.ask(QUESTION, history=before, rag_enabled=False)
        assert moderator.asked[0] == ("question", f"a secret\n\nYes?\n\n{QUESTION}")


async def test_a_refused_answer_is_withheld_and_so_is_all_that_repeats_it(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, NoWord("green")) as engine:
        answer = await engine.ask(QUESTION, session_id="s")
        assert answer.status == "refused"
        assert answer.text == "This answer is withheld: We do not speak of it in the answer."
        assert (answer.citations, answer.claims, answer.confidence) == ((), (), 0.0)
        (entry,) = engine.history.queries()
        assert (entry["status"], entry["answer"]) == ("refused", answer.text)
        assert engine.history.session("local", "s").turns[0].answer == answer.text
        assert answer.trace["spans"][-1]["stage"] == "moderate.answer"


async def test_nothing_of_an_answer_goes_out_before_it_was_judged(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, NoWord("green")) as engine:
        found = await events(engine, QUESTION)
    assert [type(event) for event in found] == [SourcesFound, Token, Finished]
    assert isinstance(found[1], Token)
    assert "green" not in found[1].text


async def test_what_passes_is_the_answer_as_it_would_have_been(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, NoWord("elephant")) as engine:
        found = await events(engine, QUESTION)
        (token, last) = found[1], found[-1]
        assert isinstance(token, Token)
        assert isinstance(last, Finished)
        assert token.text == last.answer.text == GREEN
        assert last.answer.status == "answered"
        assert last.answer.claims


async def test_tokens_come_as_they_are_written_where_only_questions_are_judged(
    tmp_path: Path,
) -> None:
    moderator = NoWord("green")
    async with await engine_with(tmp_path, moderator, **{"moderate.answers": False}) as engine:
        found = await events(engine, QUESTION)
    assert len([event for event in found if isinstance(event, Token)]) > 1
    assert [kind for kind, _ in moderator.asked] == ["question"]


async def test_each_of_two_compared_answers_is_judged(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, NoWord("green")) as engine:
        both = await engine.compare(QUESTION)
        assert (both.baseline.status, both.enhanced.status) == ("refused", "refused")


async def test_a_plain_chat_is_judged_too(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, NoWord("green")) as engine:
        found = [event async for event in engine.stream("Say something.", rag_enabled=False)]
        assert prompts(engine) == 1
    last = found[-1]
    assert isinstance(last, Finished)
    assert last.answer.status == "refused"
    assert not any("green" in event.text for event in found if isinstance(event, Token))


async def test_an_answer_that_is_repeated_was_judged_before(tmp_path: Path) -> None:
    moderator = NoWord("elephant")
    flags = {"data.answer_cache": 10, "ground.temperature": 0}
    async with await engine_with(tmp_path, moderator, **flags) as engine:
        for _ in range(2):
            assert (await engine.ask(QUESTION)).text == GREEN
        kinds = [kind for kind, _ in moderator.asked]
        assert kinds == ["question", "answer", "question"]
        moderator.word = "gate"
        with pytest.raises(RefusedError):
            await engine.ask(QUESTION)


@pytest.mark.parametrize(
    ("moderator", "timeout_s", "kind"),
    [(Broken(), LONG_S, "ConnectionError"), (Slow(), 0.05, "Timeout")],
)
async def test_without_a_word_the_answer_goes_on_and_says_so(
    tmp_path: Path, moderator: Moderator, timeout_s: float, kind: str
) -> None:
    async with await engine_with(
        tmp_path, moderator, **{"moderate.timeout_s": timeout_s}
    ) as engine:
        answer = await engine.ask(QUESTION)
        assert (answer.text, answer.degraded) == (GREEN, ("without_moderation",))
        assert any(kind in note for note in answer.notes)
        assert engine.fallbacks.counts["without_moderation"] == 1


async def test_where_nothing_may_pass_unjudged_nothing_does(tmp_path: Path) -> None:
    flags = {"moderate.when_it_fails": "refuse"}
    async with await engine_with(tmp_path, Broken(), **flags) as engine:
        with pytest.raises(ProviderError, match="could not be judged"):
            await engine.ask(QUESTION)
    flags["moderate.questions"] = False
    async with await engine_with(tmp_path, Broken(), **flags) as engine:
        answer: Answer = await engine.ask(QUESTION)
        assert answer.text == "This answer is withheld: It could not be judged."


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example of the guide as an installed package."""
    (example,) = re.findall(r'^```python\n("""no_cards.py.*?)^```$', GUIDE.read_text("utf-8"),
                            re.MULTILINE | re.DOTALL)  # fmt: skip
    (entry,) = re.findall(r"^no_cards = \"(.*)\"$", GUIDE.read_text("utf-8"), re.MULTILINE)
    place = tmp_path / "site"
    info = place / "no_cards-1.0.dist-info"
    info.mkdir(parents=True)
    (place / "no_cards.py").write_text(example)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: no-cards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ragstone.moderator]\nno_cards = {entry}\n")
    monkeypatch.syspath_prepend(str(place))
    yield
    sys.modules.pop("no_cards", None)


async def test_the_guides_example_is_found_by_its_name_and_works(
    tmp_path: Path, installed: None
) -> None:
    async with await engine_with(tmp_path, None, **{"moderate.name": "no_cards"}) as engine:
        assert (await engine.ask(QUESTION)).text == GREEN
        with pytest.raises(RefusedError, match="the number of a card"):
            await engine.ask("Is 4111 1111 1111 1111 his card?")


class TestNoWord(ModeratorConformance):
    refused = "WHERE IS THE SECRET?"

    @pytest.fixture
    def moderator(self) -> NoWord:
        return NoWord("SECRET")


class TestTheGuidesExample(ModeratorConformance):
    refused = "My card is 4111-1111-1111-1111."
    refused_kind = "answer"

    @pytest.fixture
    def moderator(self, installed: None) -> Moderator:
        from ragstone.plugins import find_part

        built: Moderator = find_part("moderator", "no_cards")(None)
        return built


class Thinking:
    """Takes its time, and has nothing against anything."""

    name = "thinking"

    async def objection(self, kind: Moderated, text: str) -> str | None:
        await asyncio.sleep(0.02)
        return None


async def test_the_time_of_judging_an_answer_is_part_of_its_whole_time(tmp_path: Path) -> None:
    async with await engine_with(tmp_path, Thinking()) as engine:
        record = (await engine.ask(QUESTION)).trace
    last = record["spans"][-1]
    assert last["stage"] == "moderate.answer"
    assert record["total_ms"] >= last["started_ms"] + last["duration_ms"] - 0.01
