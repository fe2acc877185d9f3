"""A question through the whole engine, on the sample documents and the real embedder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import InputError, StoreError
from ragstone.events import Finished, SourcesFound, Token
from ragstone.models.embedder import OnnxEmbedder
from ragstone.types import NO_ANSWER

from .conftest import settings_in


async def test_an_answer_cites_the_document_that_holds_it(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("How many seats does the planetarium room have?")
    assert answer.status == "answered"
    assert answer.citations
    for citation in answer.citations:
        document = sample_engine.catalog.document(citation.document_id)
        assert document.text[citation.start : citation.end] == citation.snippet
        assert document.name == citation.document_name


async def test_a_pdf_citation_names_its_page(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("How fast does the Halden reflector slew?")
    pages = {c.page for c in answer.citations if c.document_name.endswith(".pdf")}
    assert pages
    assert None not in pages


async def test_a_question_beside_the_documents_is_not_answered(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Who won the football world cup in 1998?")
    assert (answer.status, answer.text) == ("abstained", NO_ANSWER)
    assert not answer.citations


async def test_a_stream_is_sources_then_tokens_then_the_answer(sample_engine: Engine) -> None:
    events = [event async for event in sample_engine.stream("When does the café close?")]
    assert isinstance(events[0], SourcesFound)
    assert isinstance(events[-1], Finished)
    written = "".join(event.text for event in events if isinstance(event, Token))
    assert written == events[-1].answer.text


async def test_the_same_question_gives_the_same_answer(sample_engine: Engine) -> None:
    first = await sample_engine.ask("How large is the primary mirror?")
    second = await sample_engine.ask("How large is the primary mirror?")
    assert (first.text, first.citations) == (second.text, second.citations)


async def test_the_trace_lists_every_stage_with_time_and_counts(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("When does the lease begin?")
    stages = [span["stage"] for span in answer.trace["spans"]]
    assert stages == [
        "understand.intent", "embed", "retrieve.semantic", "retrieve.keyword", "fuse", "read",
        "refine.filter", "refine.deduplicate", "refine.select", "ground.context",
        "check.evidence", "ground.generate", "check.conflict", "check.ground",
    ]  # fmt: skip
    assert all(span["duration_ms"] > 0 and span["counts"] for span in answer.trace["spans"])


async def test_an_answer_is_written_into_the_journal(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("How large is the primary mirror?")
    entry = sample_engine.catalog.query(answer.query_id)
    assert entry["query"] == "How large is the primary mirror?"
    assert entry["answer"] == answer.text
    assert [span["stage"] for span in entry["trace"]["spans"]]
    assert sample_engine.catalog.queries(limit=1)[0]["query_id"] == answer.query_id


async def test_a_collection_never_sees_another(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("The vault opens with the number 4711.")
    await engine.ingest([tmp_path / "secret.txt"], collection="private")
    assert (await engine.ask("Which number opens the vault?")).status == "abstained"
    assert (await engine.ask("Which number opens the vault?", collection="private")).citations


async def test_a_changed_file_replaces_its_old_version(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "notice.txt"
    file.write_text("The notice period is three months.")
    first = await engine.ingest([file])
    assert (await engine.ingest([file])).of("unchanged")
    file.write_text("The notice period is six months.")
    second = await engine.ingest([file])
    assert second.of("updated")
    answer = await engine.ask("How long is the notice period?")
    assert [citation.snippet for citation in answer.citations] == [
        "The notice period is six months."
    ]
    old = engine.catalog.document(first.files[0].document_id or "")
    assert old.text == "The notice period is three months."


async def test_a_deleted_document_is_gone_from_every_search(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The gate code is 8812.")
    report = await engine.ingest([tmp_path / "a.txt"])
    await engine.delete(report.files[0].document_id or "")
    assert await engine.search("gate code") == ()
    assert engine.documents() == []


@pytest.mark.parametrize("question", ["", "  ", "ab", "x" * 1001, "\x00\x01\x02", "\x07a\x08b"])
async def test_a_question_of_a_wrong_length_is_refused(engine: Engine, question: str) -> None:
    with pytest.raises(InputError) as refused:
        await engine.ask(question)
    assert refused.value.hint


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 101])
async def test_a_collection_name_is_never_a_path(engine: Engine, name: str) -> None:
    if not name:
        name = " "
    with pytest.raises(InputError):
        await engine.ask("Is this allowed?", collection=name)


async def test_an_index_of_another_embedder_is_refused(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "a.txt").write_text("The gate code is 8812.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    await engine.ingest([tmp_path / "a.txt"])
    engine.close()
    other = OnnxEmbedder()
    other.name = "another-model"  # type: ignore[misc]  a stand-in for a second embedder
    engine = Engine(settings_in(tmp_path / "data"), embedder=other)
    with pytest.raises(StoreError, match="was embedded with 'ragstone-embed-l6-v1'"):
        await engine.ask("What is the gate code?")
    engine.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topk": 3}, "There is no option 'topk'. Did you mean top_k?"),
        ({"top_k": 0}, "Invalid top_k 0. Use a number from 1 to 1000."),
        ({"top_k": "3"}, "Invalid top_k '3'. Use a number from 1 to 1000."),
        ({"method": "keywrod"}, "Invalid method 'keywrod'. Use one of: semantic, keyword, hybrid."),
        ({"mmr_lambda": 7}, "Invalid mmr_lambda 7. Use a number from 0 to 1."),
    ],
)
async def test_a_wrong_option_is_an_error(
    engine: Engine, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as raised:
        await engine.ask("What is the rent?", **options)  # type: ignore[arg-type]
    assert str(raised.value) == message


async def test_one_path_need_not_be_in_a_list(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    report = await engine.ingest(tmp_path / "gate.txt")
    assert len(report.of("added")) == 1
