"""The corrective loop: bounded, in the trace, free when the first evidence is good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.events import Finished, SourcesFound
from ragstone.evidence import grade_evidence
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.understand.rewrite import find_feedback_terms
from ragstone.types import Answer, Message, Prompt

from ..conftest import settings_in
from .build import sources

LEASE = "The notice period of the lease is three months. The lease ends on 30 June 2039."
QUESTION = "How long is the notice period of the lease?"
WRONG = "The lease of the gate names a penalty of nine golden bananas for every lost umbrella."


class Writer:
    """Writes its answers one after the other; the last one again and again."""

    name = "writer"
    model = "pen"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.written = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        answer = self.answers[min(self.written, len(self.answers) - 1)]
        self.written += 1
        yield answer


class TalkingWriter(Writer):
    """The same with a small model that proposes other wordings."""

    def __init__(self, *answers: str, reply: str) -> None:
        super().__init__(*answers)
        self.reply = reply
        self.asked: list[str] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        self.asked.append(messages[-1].content)
        return self.reply


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lease.txt").write_text(LEASE)
    (tmp_path / "cafe.txt").write_text("The café sells soup on weekdays. It has a gate.")
    return tmp_path


async def asked(
    folder: Path, embedder: OnnxEmbedder, question: str, provider: Any = None, **flags: object
) -> Answer:
    settings = settings_in(folder / "data", **flags)
    async with Engine(settings, embedder=embedder, provider=provider) as engine:
        await engine.ingest([folder / "lease.txt", folder / "cafe.txt"])
        return await engine.ask(question)


def stages(answer: Answer, stage: str) -> list[dict[str, Any]]:
    return [span["counts"] for span in answer.trace["spans"] if span["stage"] == stage]


async def test_good_evidence_is_searched_for_once(folder: Path, embedder: OnnxEmbedder) -> None:
    answer = await asked(folder, embedder, QUESTION)
    assert stages(answer, "check.evidence")[0]["grade"] == "correct"
    assert len(stages(answer, "fuse")) == 1
    assert stages(answer, "correct.search") == []


async def test_poor_evidence_is_searched_for_again_within_bounds(
    folder: Path, embedder: OnnxEmbedder
) -> None:
    question = "Who won the chess tournament in Reykjavik?"
    answer = await asked(folder, embedder, question)
    assert answer.status == "abstained"
    attempts = stages(answer, "correct.search")
    assert [(one["attempt"], one["kept"]) for one in attempts] == [(2, False)]
    assert len(stages(answer, "fuse")) == 2
    unbounded = await asked(folder, embedder, question, MAX_ITERATIONS=0)
    assert stages(unbounded, "correct.search") == []


async def test_sources_that_are_known_already_are_not_graded_again(
    folder: Path, embedder: OnnxEmbedder
) -> None:
    answer = await asked(folder, embedder, "Who won the chess tournament in Reykjavik?")
    assert len(stages(answer, "correct.search")) == 1
    assert len(stages(answer, "check.evidence")) == 1


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_a_model_is_asked_for_other_words_within_bounds(
    folder: Path, embedder: OnnxEmbedder, most: int
) -> None:
    reply = '{"rewrite": "", "variants": ["soup of the café"], "sub_questions": []}'
    writer = TalkingWriter("I do not know.", reply=reply)
    question = "Who won the chess tournament in Reykjavik?"
    answer = await asked(folder, embedder, question, writer, MAX_ITERATIONS=most)
    assert len(stages(answer, "correct.search")) == most


async def test_the_waterfall_is_that_of_the_evidence_that_was_used(
    folder: Path, embedder: OnnxEmbedder
) -> None:
    answer = await asked(folder, embedder, "Who won the chess tournament in Reykjavik?")
    names = [entry["stage"] for entry in answer.trace["waterfall"]["stages"]]
    assert len(names) == len(set(names))


async def test_an_answer_that_nothing_supports_is_written_again_and_the_best_is_kept(
    folder: Path, embedder: OnnxEmbedder
) -> None:
    writer = Writer(WRONG, "The notice period of the lease is three months.")
    answer = await asked(folder, embedder, QUESTION, writer)
    assert writer.written == 2
    assert answer.text == "The notice period of the lease is three months. [Source 1]"
    assert answer.is_grounded
    assert stages(answer, "correct.answer") == [{"attempt": 2, "kept": True}]
    assert answer.degraded == ()


async def test_a_good_answer_is_never_written_again(folder: Path, embedder: OnnxEmbedder) -> None:
    writer = Writer("The notice period of the lease is three months.", WRONG)
    answer = await asked(folder, embedder, QUESTION, writer)
    assert writer.written == 1
    assert answer.is_grounded


async def test_tries_at_an_answer_end(folder: Path, embedder: OnnxEmbedder) -> None:
    writer = Writer(WRONG)
    answer = await asked(folder, embedder, QUESTION, writer)
    assert writer.written == 3
    assert not answer.is_grounded
    assert answer.text.startswith("The lease of the gate")


async def test_the_stream_shows_the_first_attempt_and_ends_with_the_best(
    folder: Path, embedder: OnnxEmbedder
) -> None:
    writer = Writer(WRONG, "The notice period of the lease is three months.")
    async with Engine(settings_in(folder / "data"), embedder=embedder, provider=writer) as engine:
        await engine.ingest([folder / "lease.txt"])
        events = [event async for event in engine.stream(QUESTION)]
    assert sum(isinstance(event, SourcesFound) for event in events) == 1
    last = events[-1]
    assert isinstance(last, Finished)
    assert "three months" in last.answer.text


async def test_a_model_proposes_other_wordings_for_the_last_search(
    folder: Path, embedder: OnnxEmbedder
) -> None:
    reply = '{"rewrite": "", "variants": ["soup of the café"], "sub_questions": []}'
    writer = TalkingWriter("Soup [Source 1].", reply=reply)
    answer = await asked(folder, embedder, "Who won the chess tournament in Oslo?", writer)
    assert any("chess tournament" in prompt for prompt in writer.asked)
    assert len(stages(answer, "correct.search")) == 2
    assert answer.degraded == ()


def test_feedback_terms_are_shared_by_the_sources_and_not_in_the_question() -> None:
    found = find_feedback_terms("Which gate?", sources("The gate of the observatory.",
                                                 "Observatory gate, north side."))  # fmt: skip
    assert found[0] == "observatory"
    assert "gate" not in found


def test_grades_follow_the_probability() -> None:
    assert [grade_evidence(p) for p in (0.0, 0.29, 0.3, 0.59, 0.6, 1.0)] == [
        "incorrect", "incorrect", "ambiguous", "ambiguous", "correct", "correct",
    ]  # fmt: skip
