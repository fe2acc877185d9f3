"""Bytes become text whatever they were written with, and clear headings are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.blocks import LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.text import TextLoader, decode, find_headings

GREETING = "Grüße aus München, 天文台 🙂"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_with_or_without_a_byte_order_mark_is_read(encoding: str) -> None:
    assert decode(GREETING.encode(encoding)) == GREETING


def test_what_is_no_utf8_is_read_as_windows_text() -> None:
    assert decode("Grüße – 5 €".encode("cp1252")) == "Grüße – 5 €"


@pytest.mark.parametrize("content", [b"a\x00b", b"\x00" * 40])
def test_binary_data_is_refused(content: bytes) -> None:
    with pytest.raises(IngestError):
        decode(content)


@given(
    st.text(
        alphabet=st.characters(exclude_characters="\ufeff", exclude_categories=["C", "Zl", "Zp"])
    )
)
def test_utf8_text_comes_through_unchanged(text: str) -> None:
    assert decode(text.encode()) == text


def test_every_line_end_becomes_a_line_feed() -> None:
    assert decode(b"a\r\nb\rc\n") == "a\nb\nc\n"


def test_underlined_and_capital_lines_are_headings() -> None:
    text = "LEASE\n\nIntro.\n\nTerm\n----\nTen years.\n\n2. NOTICE\n\nSix months.\n"
    found = find_headings(text)
    assert [heading.title for heading in found] == ["LEASE", "Term", "2. NOTICE"]
    for heading in found:
        assert text.startswith(heading.title, heading.start)


def test_a_shouted_sentence_is_no_heading() -> None:
    assert find_headings("First.\n\nDO NOT OPEN THE DOME.\n\nLast.") == []


def test_the_loader_keeps_the_text_letter_for_letter() -> None:
    loaded = TextLoader().load(b"Term\n====\nTen years.\n", LoadOptions())
    assert (loaded.text, loaded.media_type) == ("Term\n====\nTen years.\n", "text/plain")
    assert loaded.headings[0].level == 1
