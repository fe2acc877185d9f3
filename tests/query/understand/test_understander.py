"""What a question wants, through the whole engine with the real embedder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.types import Answer, Message

from ...conftest import settings_in
from ..scripted import ScriptedProvider, SilentProvider


def stages(answer: Answer) -> list[str]:
    return [span["stage"] for span in answer.trace["spans"]]


@pytest.mark.parametrize(
    ("text", "intent", "reply"),
    [
        ("hello", "greeting", "Hello! Ask me a question about your documents."),
        ("vielen Dank", "gratitude", "Gern geschehen."),
        ("¿eres un robot?", "chitchat", "Soy Ragstone."),
    ],
)
async def test_exact_small_talk_is_answered_at_once_in_its_language(
    sample_engine: Engine, text: str, intent: str, reply: str
) -> None:
    answer = await sample_engine.ask(text)
    assert answer.text.startswith(reply)
    assert (answer.detected_intent, answer.route) == (intent, "conversational")
    assert stages(answer) == ["understand.intent"]
    assert not answer.sources
    assert (answer.status, answer.confidence, answer.claims) == ("conversational", 0.0, ())


async def test_what_only_looks_like_small_talk_is_searched_first(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("do you think robots dream")
    assert "retrieve.keyword" in stages(answer)
    assert answer.status == "conversational"
    assert answer.text.startswith("I am Ragstone.")


async def test_a_remark_inside_a_conversation_is_small_talk(sample_engine: Engine) -> None:
    history = [Message("user", "What does an adult pay?"), Message("assistant", "16 euros.")]
    for text in ("that was very helpful, thank you so much", "thanks!"):
        answer = await sample_engine.ask(text, history=history)
        assert (answer.status, answer.text) == ("conversational", "You're welcome.")
    answer = await sample_engine.ask("thanks, and who is the safety officer?", history=history)
    assert answer.status != "conversational"
    assert "thanks" not in answer.searched_as


async def test_the_documents_decide_what_is_a_question(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    """What a classifier takes for small talk is answered where the documents answer it."""
    (tmp_path / "jobs.txt").write_text("We are hiring: two electricians, from May on.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    assert (await engine.ask("do you think robots dream")).status == "conversational"
    (tmp_path / "jobs.txt").write_text("Do you think robots dream? Yes: robots dream of sheep.")
    await engine.ingest([tmp_path / "jobs.txt"])
    answer = await engine.ask("do you think robots dream")
    assert answer.detected_intent == "question"
    engine.close()


@pytest.mark.parametrize(
    "text",
    [
        "hi, what is the notice period?",
        "Hello! How large is the primary mirror?",
        "Who made the first recoating of the mirror?",
        "How old is the telescope?",
        "What is the name of the café?",
    ],
)
async def test_a_question_with_a_friendly_word_is_searched_for(
    sample_engine: Engine, text: str
) -> None:
    answer = await sample_engine.ask(text)
    assert answer.detected_intent == "question"
    assert "retrieve.keyword" in stages(answer)


async def test_with_the_router_off_even_a_greeting_is_searched_for(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = Engine(settings_in(tmp_path, preset="minimal"), embedder=embedder)
    assert "embed" in stages(await engine.ask("hello"))
    engine.close()


async def test_an_unsure_intent_is_left_to_the_model(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = ScriptedProvider({"<message>": '{"intent": "chitchat", "confidence": 0.9}'})
    engine = Engine(settings_in(tmp_path), embedder=embedder, provider=provider)
    (tmp_path / "gate.txt").write_text("Invoices are due on the first of May; see table 4.")
    await engine.ingest([tmp_path / "gate.txt"])
    answer = await engine.ask("how are you today my friend")
    assert answer.detected_intent == "chitchat"
    assert answer.trace["spans"][0]["counts"]["layer"] == 2
    engine.close()


async def test_a_model_that_fails_leaves_a_question(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    engine = Engine(settings_in(tmp_path), embedder=embedder, provider=ScriptedProvider({}))
    (tmp_path / "gate.txt").write_text("The gate is green.")
    await engine.ingest([tmp_path / "gate.txt"])
    answer = await engine.ask("how are you today my friend")
    assert answer.detected_intent == "question"
    assert answer.degraded == ("without_llm_steps",)
    assert engine.fallbacks.counts["without_llm_steps"] == 1
    engine.close()


async def test_a_follow_up_is_resolved_by_the_model(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    provider = ScriptedProvider({"<conversation>": '{"question": "Who signed the lease?"}'})
    (tmp_path / "lease.txt").write_text("The lease was signed by Ada Brandt.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "lease.txt"])
    history = [Message("user", "What is the rent in the lease?"), Message("assistant", "900.")]
    answer = await engine.ask("and who signed it?", history=history)
    assert "assistant: 900." in provider.asked[0]
    assert provider.prompts[0].question == "Who signed the lease?"
    assert answer.question == "and who signed it?"
    assert (answer.detected_intent, answer.route) == ("follow_up", "conversational")
    engine.close()


async def test_a_follow_up_carries_nouns_over_without_a_model(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "lease.txt").write_text("The lease of the ridge was signed by Ada Brandt.")
    (tmp_path / "cafe.txt").write_text("The café menu was signed off by the cook.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=SilentProvider())
    await engine.ingest([tmp_path / "lease.txt", tmp_path / "cafe.txt"])
    history = [Message("user", "What is the rent in the lease of the ridge?")]
    answer = await engine.ask("and who signed it?", history=history)
    assert answer.sources[0].hit.chunk.document_name == "lease.txt"
    assert not answer.degraded
    engine.close()


EXPANDED = """Here you are: ```json
{"rewrite": "Difference between lease and purchase", "variants": ["rent or buy"],
 "sub_questions": ["What does the lease cost?", "What does the purchase cost?"]}```"""


async def test_a_complex_question_is_searched_for_in_parts(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "a.txt").write_text("The lease costs 900 a month.")
    (tmp_path / "b.txt").write_text("The purchase costs 90,000 at once.")
    provider = ScriptedProvider({"sub_questions": EXPANDED, "passage": '{"passage": "It costs."}'})
    settings = settings_in(tmp_path / "data", **{"understand.hyde": True})
    engine = Engine(settings, embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "a.txt", tmp_path / "b.txt"])
    answer = await engine.ask("Compare the lease with the purchase.")
    expand = next(s for s in answer.trace["spans"] if s["stage"] == "understand.expand")
    assert expand["counts"]["kinds"] == [
        "rewrite", "variant", "sub-question", "sub-question", "hypothetical",
    ]  # fmt: skip
    assert {source.hit.chunk.document_name for source in answer.sources} == {"a.txt", "b.txt"}
    assert answer.route == "complex"
    engine.close()


async def test_an_expansion_that_fails_leaves_the_plain_question(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = ScriptedProvider({"sub_questions": "I would rather not."})
    (tmp_path / "a.txt").write_text("The lease costs 900 a month.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "a.txt"])
    answer = await engine.ask("Compare the lease with the purchase.")
    assert answer.degraded == ("without_llm_steps",)
    assert answer.sources
    engine.close()


async def test_a_simple_question_asks_no_model(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    provider = ScriptedProvider({})
    engine = Engine(settings_in(tmp_path), embedder=embedder, provider=provider)
    answer = await engine.ask("What does the lease of the ridge cost per month?")
    assert provider.asked == []
    assert (answer.route, answer.degraded) == ("simple", ())
    engine.close()


async def test_a_summary_reads_the_named_document_in_order(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Summarize the dome operation manual")
    names = {source.hit.chunk.document_name for source in answer.sources}
    indexes = [source.hit.chunk.index for source in answer.sources]
    assert len(names) == 1
    assert "dome-operation" in names.pop()
    assert indexes == sorted(indexes)
    assert answer.route == "summarize"
