"""Sections follow the headings of a document; the sentences nearest to their mean are quoted."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.outline import DocumentEntry, Outline
from ragstone.protocols import Vectors
from ragstone.reading.outline import MAX_EMBEDDED, clean_label, list_sentences, write_outline
from ragstone.testing import HashEmbedder
from ragstone.types import NO_ANSWER, Chunk, Hit, Source


def make_source(text: str, *path: str, number: int = 1, document: str = "a") -> Source:
    chunk = Chunk(document, number - 1, text, 0, len(text), f"{document}.md", heading_path=path)
    return Source(number, Hit(chunk, 1.0, "hybrid"), text)


class CountingEmbedder(HashEmbedder):
    """Counts the texts that are embedded."""

    count = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.count += len(texts)
        return super().embed(texts)


def summarize(*sources: Source) -> str:
    outline = Outline("summary", documents=(DocumentEntry("a", "a.md", "Guide"),), count=1)
    return "".join(write_outline(outline, sources, HashEmbedder()))


def test_a_summary_quotes_each_section_under_its_heading() -> None:
    text = summarize(
        make_source("The guide is for every guest of the house.", "Guide", number=1),
        make_source("The bus leaves at ten past every hour.", "Guide", "1. Getting here", number=2),
        make_source("Dogs are welcome on the terrace only.", "Guide", "Rules", number=3),
    )
    assert text == (
        "Key sentences of Guide (a.md), in its own words:"
        "\n\n- The guide is for every guest of the house. [Source 1]"
        "\n\n**Getting here**\n- The bus leaves at ten past every hour. [Source 2]"
        "\n\n**Rules**\n- Dogs are welcome on the terrace only. [Source 3]"
    )


def test_a_text_without_headings_is_quoted_from_all_its_parts() -> None:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
    text = summarize(make_source(" ".join(f"On {day} the museum opens at ten." for day in days)))
    assert text.count("[Source 1]") == 2
    assert "Monday" in text or "Tuesday" in text or "Wednesday" in text


def test_a_document_without_sentences_has_no_summary() -> None:
    assert summarize(make_source("12 | 13 | 14")).startswith(NO_ANSWER)


def test_a_sentence_is_quoted_once() -> None:
    said = "The bus leaves at ten past every hour."
    text = summarize(make_source(said, "A"), make_source(said, "B", number=2))
    assert text.count(said) == 1


def test_the_number_of_embedded_sentences_is_bounded() -> None:
    embedder = CountingEmbedder()
    sources = [
        make_source(" ".join(f"Rule {n} {m} is one of very many." for m in range(40)), f"S{n}")
        for n in range(20)
    ]
    outline = Outline("summary", documents=(DocumentEntry("a", "a.md"),), count=1)
    assert "(8 of 20 sections)" in "".join(write_outline(outline, sources, embedder))
    assert embedder.count <= MAX_EMBEDDED


def test_sections_with_the_same_heading_are_compared() -> None:
    outline = Outline(
        "comparison", documents=(DocumentEntry("a", "a.md"), DocumentEntry("b", "b.md")), count=2
    )
    sources = [
        make_source("The rent is one hundred euros a month.", "Rent"),
        make_source("The garden is open to every guest.", "Garden", number=2),
        make_source("The staff wears badges at work.", "Staff", number=3, document="b"),
        make_source("No money changes hands at all.", "RENT", number=4, document="b"),
    ]
    text = "".join(write_outline(outline, sources, HashEmbedder()))
    assert "**Rent**\n- The rent is one hundred euros a month. [Source 1]\n- No money" in text


def test_a_topic_is_quoted_once_from_the_sections_that_are_about_it() -> None:
    dogs = "Dogs are welcome on the terrace."
    outline = Outline(
        "summary", "dogs on the terrace", (DocumentEntry("a", "a.md"),), 1, is_topic=True
    )
    sources = [
        make_source(f"Tickets cost sixteen euros per adult. {dogs}", "Visits"),
        make_source(dogs, "Copy", number=2),
    ]
    text = "".join(write_outline(outline, sources, HashEmbedder()))
    assert text.count(dogs) == 1
    assert "Tickets" not in text


def test_what_cannot_be_read_alone_is_not_quoted() -> None:
    text = (
        "# Heading\n\nUse the following commands:\n\n```\nkubectl get pods\n```\n\n"
        "Is this a question that somebody asks?\n\nToo short.\n\n"
        "The kubelet restarts a container that exits.\n"
    )
    assert [sentence.text for sentence in list_sentences(make_source(text))] == [
        "The kubelet restarts a container that exits."
    ]


def test_labels_have_no_numbers_and_no_ends_of_sentences() -> None:
    assert clean_label("2. Term. Notice:") == "Term Notice"
    assert clean_label("3.1 **Rent**") == "Rent"
