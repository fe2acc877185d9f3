"""Summaries, comparisons, overviews and lists are made from whole documents, without a model."""

from __future__ import annotations

import re
from pathlib import Path

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.types import NO_ANSWER, Answer

from ...conftest import settings_in

_MARKER = re.compile(r"\s*\[Source \d+\]")


async def test_a_named_document_is_read_even_with_a_small_top_k(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"note{number}.txt").write_text(
            f"Summarize the handbook please, said note {number}: the handbook, the handbook."
        )
    (tmp_path / "handbook.txt").write_text("Guests leave by noon. Keys lie at the desk.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "*.txt"])
    answer = await engine.ask("Summarize the handbook", top_k=1)
    assert answer.route == "summarize"
    assert {source.hit.chunk.document_name for source in answer.sources} == {"handbook.txt"}
    engine.close()


def check_quoted(answer: Answer) -> None:
    """Every item is a sentence of its source, and the check supports it."""
    assert answer.status == "answered"
    assert answer.claims
    assert answer.citations
    assert {claim.verdict for claim in answer.claims} == {"supported"}
    texts = {s.number: " ".join(s.text.split()) for s in answer.sources}
    for line in answer.text.splitlines():
        if line.startswith("- "):
            numbers = [int(n) for n in re.findall(r"\[Source (\d+)\]", line)]
            said = _MARKER.sub("", line.removeprefix("- "))
            assert any(said.strip("*_") in texts[number] for number in numbers), line


async def test_a_summary_quotes_a_sentence_of_each_section(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Summarize the catering contract")
    check_quoted(answer)
    assert answer.text.startswith("Key sentences of CATERING AGREEMENT")
    assert {s.hit.chunk.document_name for s in answer.sources} == {
        "contracts/catering-agreement.txt"
    }
    headings = re.findall(r"^\*\*(.+)\*\*$", answer.text, re.MULTILINE)
    assert {"TERM AND NOTICE", "PAYMENT", "LIABILITY AND INSURANCE"} <= set(headings)
    assert answer.confidence > 0.8


async def test_a_summary_works_in_other_languages(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Fasse die Besucherinfo zusammen")
    assert answer.status == "answered"
    assert "**Öffnungszeiten in Kürze**" in answer.text


async def test_a_topic_is_summarized_from_the_passages_about_it(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Summarize the rules about dogs")
    check_quoted(answer)
    assert "Dogs are welcome on the terrace" in answer.text


async def test_what_no_document_is_about_is_not_summarized(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Summarize the contract with the cleaning company")
    assert answer.status == "abstained"
    assert not answer.citations
    assert answer.text.startswith(NO_ANSWER)
    assert "There are 13 documents: handbook (3)" in answer.text


async def test_an_overview_counts_and_names_all_documents(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("What are these documents about?")
    check_quoted(answer)
    assert answer.text.startswith("Overview of 13 documents")
    for name in ("Visitor Guide", "Lease of the Ridge", "Safety Policy", "Telescope"):
        assert name in answer.text


async def test_documents_of_a_folder_are_listed(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("List all contracts")
    check_quoted(answer)
    assert answer.text.startswith("2 of 13 documents match")
    assert "contracts/catering-agreement.txt" in answer.text
    assert "contracts/lease-of-the-ridge.pdf" in answer.text


async def test_documents_are_counted(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("How many documents are there?")
    assert answer.text.startswith("There are 13 documents:")


async def test_two_documents_are_compared_section_by_section(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Compare the lease and the catering agreement")
    check_quoted(answer)
    assert answer.text.startswith("Comparison of Lease of the Ridge and CATERING AGREEMENT")
    assert "**Term / TERM AND NOTICE**" in answer.text
    pairs = re.findall(r"\n- .*\[Source \d+\]\n- .*\[Source \d+\]", answer.text)
    assert len(pairs) > 3


async def test_two_things_are_not_compared_as_documents(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("What is the difference between the dome and the café?")
    assert not answer.text.startswith("Comparison of")


async def test_a_question_limited_to_a_document_summarizes_that_one(sample_engine: Engine) -> None:
    documents = sample_engine.documents()
    one = next(d for d in documents if d.name.endswith("safety.md"))
    answer = await sample_engine.ask("What is this document about?", document_ids=[one.id])
    check_quoted(answer)
    assert answer.text.startswith("Key sentences of Safety Policy")


async def test_writing_needs_a_model_and_the_answer_says_so(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("Write an email to the landlord")
    assert answer.status == "abstained"
    assert "Without a language model" in answer.text
    assert "LLM_PROVIDER" in answer.text


async def test_a_search_ranks_passages_whatever_it_asks_for(sample_engine: Engine) -> None:
    hits = await sample_engine.search("List all contracts", top_k=5)
    assert len(hits) == 5
    assert hits[0].score > hits[-1].score


async def test_a_question_is_answered_as_before(sample_engine: Engine) -> None:
    answer = await sample_engine.ask("When does the lease begin?")
    assert "1 July 2009" in answer.text
    assert not answer.text.startswith("Extractive summary")


async def test_a_model_gets_the_nearest_document_of_an_unknown_name(tmp_path: Path) -> None:
    (tmp_path / "house.txt").write_text("Guests leave by noon. Keys lie at the desk.")
    (tmp_path / "car.txt").write_text("The car takes diesel. Its tyres are new.")
    engine = Engine(
        settings_in(tmp_path / "data"),
        embedder=HashEmbedder(),
        provider=ScriptedProvider(["Guests leave by noon [Source 1]."]),
    )
    await engine.ingest([tmp_path / "*.txt"])
    answer = await engine.ask("Summarize guests and keys")
    assert "Guests leave by noon" in answer.text
    assert {s.hit.chunk.document_name for s in answer.sources} == {"house.txt"}
    engine.close()


async def test_every_document_of_a_comparison_gets_its_share(tmp_path: Path) -> None:
    (tmp_path / "long-report.md").write_text(
        "# Long report\n\n"
        + "\n\n".join(
            f"## Part {n}\n\n{'The words of this part fill a page. ' * 40}" for n in range(60)
        )
    )
    (tmp_path / "short-report.md").write_text(
        "# Short report\n\n## Part 1\n\nOnly this part of the report is short.\n"
    )
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "*.md"])
    answer = await engine.ask("Compare the long report and the short report")
    assert answer.text.startswith("Comparison of Long report and Short report")
    assert "Only this part of the report is short." in answer.text
    engine.close()
