"""What belongs together stays together, and rows know what names them."""

from __future__ import annotations

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.ingest.formats.text import MarkdownLoader
from ragstone.ingest.split import ChunkingOptions, SentenceSplitter
from ragstone.testing import HashEmbedder
from ragstone.types import Chunk

EMBEDDER = HashEmbedder()
FILLER = "The dome of the tower opens at nine in the evening and closes again at four. "


def split(source: str, chunk_tokens: int = 60) -> list[Chunk]:
    loaded = MarkdownLoader().load(source.encode(), LoadOptions())
    splitter = SentenceSplitter(EMBEDDER, ChunkingOptions(chunk_tokens, 0))
    return splitter.split(loaded, document_id="d", document_name="d.md")


def chunk_with(chunks: list[Chunk], words: str) -> Chunk:
    return next(chunk for chunk in chunks if words in chunk.text)


def test_a_lead_in_stays_with_its_list() -> None:
    chunks = split(
        f"{FILLER * 3}\n\nTo open the gate, do this:\n\n- turn the key\n- lift the bar\n"
    )
    gate = chunk_with(chunks, "To open the gate")
    assert gate.text == "To open the gate, do this:\n\n- turn the key\n- lift the bar"


def test_a_sentence_stays_with_the_listing_below_it() -> None:
    chunks = split(f"{FILLER * 3}Run this once.\n\n```sh\nopen --gate\n```\n")
    assert "open --gate" in chunk_with(chunks, "Run this once.").text


def test_a_lead_in_stays_with_its_table() -> None:
    table = "| a | b |\n|---|---|\n| c | d |\n| e | f |\n"
    chunks = split(f"{FILLER * 3}The limits are as follows.\n\n{table}")
    assert "| e | f |" in chunk_with(chunks, "as follows").text


def test_a_question_stays_with_its_answer() -> None:
    chunks = split(
        f"{FILLER * 3}\n\n**Who opens the gate?**\n\nThe warden opens it. She comes early."
    )
    assert "She comes early." in chunk_with(chunks, "Who opens").text


def test_keys_stay_on_one_line_with_their_values() -> None:
    lines = [f"setting_{at}: value number {at} of many" for at in range(30)]
    chunks = split("\n".join(lines) + "\n")
    assert len(chunks) > 2
    assert [line for chunk in chunks for line in chunk.text.split("\n")] == lines


def test_what_does_not_fit_is_parted_all_the_same() -> None:
    items = "\n".join(f"- item number {at} of a long list of things" for at in range(40))
    chunks = split(f"Do all of this:\n\n{items}\n")
    assert len(chunks) > 3
    assert "- item number 0" in chunks[0].text


ROWS = "".join(f"| Pump {at} | {at}.5 | {at * 7} |\n" for at in range(40))
LONG_TABLE = (
    f"# Pumps\n\nPumps of 2024, power in kW\n\n| Model | Power | Mass |\n|---|---|---|\n{ROWS}"
)


def test_rows_that_are_cut_from_their_header_know_it_and_the_caption() -> None:
    first, *rest = split(LONG_TABLE)
    assert (first.table_header, first.context) == ("", ""), "both stand in the chunk itself"
    assert len(rest) > 3
    for chunk in rest:
        assert chunk.text.startswith("| Pump")
        assert chunk.table_header == "| Model | Power | Mass |"
        assert chunk.context == "Pumps of 2024, power in kW"
        assert chunk.heading_path == ("Pumps",)
        assert chunk.contextual_text == (
            f"Pumps\nPumps of 2024, power in kW\n| Model | Power | Mass |\n{chunk.text}"
        )


def test_the_header_counts_as_part_of_a_chunk() -> None:
    for chunk in split(LONG_TABLE):
        text = "\n".join(filter(None, ["Pumps", chunk.table_header, chunk.text]))
        assert len(EMBEDDER.token_starts(text)) <= 60


def test_the_title_of_the_document_names_a_table() -> None:
    loaded = LoadedDocument(
        "| a | b |\n| --- | --- |\n| c | d |", "application/pdf",
        blocks=MarkdownLoader().load(b"| a | b |\n| --- | --- |\n| c | d |", LoadOptions()).blocks,
        metadata={"title": "Marlow Shipping, Annual Report 2021"},
    )  # fmt: skip
    splitter = SentenceSplitter(EMBEDDER, ChunkingOptions(60, 0))
    [chunk] = splitter.split(loaded, document_id="d", document_name="d.pdf")
    assert chunk.context == "Marlow Shipping, Annual Report 2021"


def test_a_title_that_a_program_gave_names_nothing() -> None:
    loaded = MarkdownLoader().load(b"| a | b |\n|---|---|\n| c | d |", LoadOptions())
    loaded = LoadedDocument(
        loaded.text, "application/pdf", blocks=loaded.blocks, metadata={"title": "report-v7.docx"}
    )
    splitter = SentenceSplitter(EMBEDDER, ChunkingOptions(60, 0))
    [chunk] = splitter.split(loaded, document_id="d", document_name="d.pdf")
    assert chunk.context == ""


def test_a_numbered_caption_below_a_table_names_it() -> None:
    source = (
        "# A\n\n| a | b |\n|---|---|\n" + ROWS.replace("| Pump", "| P") + "\nTable 3: All pumps.\n"
    )
    assert {chunk.context for chunk in split(source)} >= {"Table 3: All pumps."}


def test_prose_above_a_table_is_no_caption() -> None:
    source = f"{FILLER * 3}\n\n| Model | Power | Mass |\n|---|---|---|\n{ROWS}"
    assert {chunk.context for chunk in split(source)} == {""}


def test_comments_and_shortcodes_are_not_indexed() -> None:
    source = (
        "<!-- overview -->\n\nA {{< glossary_tooltip text=\"Pod\" term_id=\"pod\" >}} runs.\n\n"
        "{{< note >}}\nIt may stop.\n{{< /note >}}\n"
    )  # fmt: skip
    chunks = split(source)
    indexed = "\n".join(chunk.contextual_text for chunk in chunks)
    assert "A Pod runs." in indexed
    assert "It may stop." in indexed
    assert not {"overview", "glossary", "note"} & set(indexed.replace("<", " ").split())
    assert all(chunk.text in source for chunk in chunks), "what is stored is as it was written"


def test_a_section_of_shortcodes_alone_is_no_chunk() -> None:
    assert split("# A\n\n{{< toc >}}\n\n# B\n\nText.\n")[-1].text == "Text."
    assert all("toc" not in chunk.text for chunk in split("# A\n\n{{< toc >}}\n\n# B\n\nText.\n"))


def test_the_title_in_the_front_matter_stands_above_all_headings() -> None:
    chunks = split("---\ntitle: Pods\n---\nIntro.\n\n# Use\n\nMore.\n")
    assert [chunk.heading_path for chunk in chunks] == [("Pods",), ("Pods", "Use")]
    assert [chunk.text for chunk in chunks] == ["Intro.", "More."]
