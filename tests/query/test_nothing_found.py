"""Nothing found, with a model there: no call by default, a marked plain chat if it is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.types import NO_ANSWER, Message, Prompt, Query, RetrievedHits

from ..conftest import settings_in
from .scripted import ScriptedProvider

QUESTION = "How long is the notice period?"
ONLY = ("only from", "nothing else", "excerpts")


class EmptyRetriever:
    """Another service, with nothing to say."""

    async def retrieve(self, query: Query, run: Any) -> RetrievedHits:
        return RetrievedHits()


class FailingProvider(ScriptedProvider):
    async def stream(self, prompt: Prompt) -> Any:
        self.prompts.append(prompt)
        raise RuntimeError("down")
        yield ""


def build(
    tmp_path: Path, embedder: OnnxEmbedder, provider: ScriptedProvider, **more: Any
) -> Engine:
    parts = {name: more.pop(name) for name in ("retriever",) if name in more}
    return Engine(settings_in(tmp_path, **more), embedder=embedder, provider=provider, **parts)


@pytest.mark.parametrize("parts", [{}, {"retriever": EmptyRetriever()}])
async def test_by_default_the_answer_abstains_without_a_call(
    tmp_path: Path, embedder: OnnxEmbedder, parts: dict[str, Any]
) -> None:
    provider = ScriptedProvider({}, answer="Three months.")
    async with build(tmp_path, embedder, provider, **parts) as engine:
        answer = await engine.ask(QUESTION)
    assert (answer.status, answer.sources) == ("abstained", ())
    assert answer.text.startswith(NO_ANSWER)
    assert provider.prompts == []


async def test_an_empty_collection_costs_no_inner_call_either(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = ScriptedProvider({})
    more = {"understand.expand": "always", "understand.hyde": True}
    async with build(tmp_path, embedder, provider, **more) as engine:
        await engine.ask("Compare the lease and the catering agreement.", session_id="s")
        await engine.ask("And in winter?", session_id="s")
        (tmp_path / "lease.txt").write_text("The notice period is three months.")
        assert provider.asked == []
        await engine.ingest([tmp_path / "lease.txt"])
        await engine.ask("Compare the lease and the catering agreement.")
    assert provider.asked, "with a document the model is asked for other wordings"


async def test_with_the_setting_it_is_a_plain_chat_that_says_so(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = ScriptedProvider({}, answer="Three months [Source 1].")
    history = [Message("user", "Hello?"), Message("assistant", "Hi.")]
    more = {"retrieve.fallback": "chat", "check.hold_unverified": True}
    async with build(tmp_path, embedder, provider, **more) as engine:
        answer = await engine.ask(QUESTION, history=history)
        assert engine.fallbacks.counts == {"plain_chat": 1}
    assert (answer.status, answer.text) == ("ungrounded", "Three months [Source 1].")
    assert (answer.is_grounded, answer.confidence, answer.claims) == (False, 0.0, ())
    assert answer.degraded == ("plain_chat",)
    assert any("own knowledge" in note for note in answer.notes)
    (prompt,) = provider.prompts
    assert prompt.messages == (*history, Message("user", QUESTION))
    assert not any(word in one.content for one in prompt.messages for word in ONLY)


async def test_a_plain_chat_whose_model_fails_abstains(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = FailingProvider({})
    async with build(tmp_path, embedder, provider, **{"retrieve.fallback": "chat"}) as engine:
        answer = await engine.ask(QUESTION)
    assert answer.status == "abstained"
    assert answer.degraded == ("plain_chat", "extractive_answer")


async def test_without_a_model_the_setting_changes_nothing(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    settings = settings_in(tmp_path, **{"retrieve.fallback": "chat"})
    async with Engine(settings, embedder=embedder) as engine:
        answer = await engine.ask(QUESTION)
    assert (answer.status, answer.degraded) == ("abstained", ())


async def test_with_rag_off_the_messages_reach_the_model_as_they_are(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = ScriptedProvider({}, answer="As [Source 1] says.")
    typed = "  Two  lines:\n\tkept.  "
    async with build(tmp_path, embedder, provider, **{"retrieve.enabled": False}) as engine:
        answer = await engine.ask(typed, is_chat=True, session_id="s")
        again = await engine.ask("Why?", session_id="s", is_chat=True)
        stored = engine.history.query(answer.query_id)
        with pytest.raises(InputError, match="rag_enabled"):
            await engine.compare("Is it so?")
        found = await engine.ask("Is the gate green?", rag_enabled=True)
    assert provider.prompts[0].messages == (Message("user", typed),)
    sent = [(one.role, one.content) for one in provider.prompts[1].messages]
    assert [role for role, _ in sent] == ["user", "assistant", "user"]
    assert sent[-1] == ("user", "Why?")
    assert (answer.status, answer.route, answer.top_k) == ("ungrounded", "plain", 0)
    assert stored["status"] == again.status == "ungrounded"
    assert found.status == "abstained", "the request decides against the setting"
