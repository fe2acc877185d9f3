"""Sentence spans are in order, apart from each other, inside the text and without white space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.text import TextMemo, find_sentence_spans

PIECES = st.sampled_from(
    ["The dome opens.", " ", "\n", "\n\n", "# Head\n", "- item", "| a | b |\n", "Dr. Who? ", "🙂",
     "天文台は開いている。", "它关门了！", "e.g. 3.5 m", "\t", "2.1 The", "(a) ", "\n§ 3 (2) Der",
     "1. ", "“Yes.”", "…", "؟", "é", "\u200d"]
)  # fmt: skip


def check(text: str) -> None:
    spans = find_sentence_spans(text)
    position = 0
    for start, end in spans:
        assert position <= start < end <= len(text)
        sentence = text[start:end]
        assert sentence == sentence.strip()
        position = end
    covered = "".join(text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(text.split())


@given(st.text())
def test_spans_of_any_text_are_in_order_and_lose_nothing(text: str) -> None:
    check(text)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_spans_of_prose_lists_tables_emoji_and_cjk_are_in_order_and_lose_nothing(
    text: str,
) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It opens at 9. It closes at 17.", ["It opens at 9.", "It closes at 17."]),
        ("Dr. Halden came. He left.", ["Dr. Halden came.", "He left."]),
        ("🙂 Hello there. 🙂🙂 Bye now.", ["🙂 Hello there.", "🙂🙂 Bye now."]),
        ("天文台は開いている。入場は無料です。", ["天文台は開いている。", "入場は無料です。"]),
        ("# Hours\nOpen daily.", ["# Hours", "Open daily."]),
        ("Bring:\n- water\n- a map", ["Bring:", "- water", "- a map"]),
        ("One line\n\nanother", ["One line", "another"]),
        ("*Long voyage.* Play on.", ["*Long voyage.*", "Play on."]),
        ("**Warning.**\n\nDo it now.", ["**Warning.**", "Do it now."]),
        ("*Note.*", ["*Note.*"]),
        (
            "**Sail.** Draw a card. **Trade.** Sell.",
            ["**Sail.**", "Draw a card.", "**Trade.**", "Sell."],
        ),
        ("", []),
        (" \n\t ", []),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in find_sentence_spans(text)] == sentences


@pytest.mark.parametrize("title", ["Ms.", "Mx.", "Sra.", "Dr."])
def test_a_title_does_not_end_a_sentence(title: str) -> None:
    text = f"Write to the adviser, {title} Dorst, at once. She answers within a week."
    spans = find_sentence_spans(text)
    assert [text[start:end] for start, end in spans] == [
        f"Write to the adviser, {title} Dorst, at once.",
        "She answers within a week.",
    ]


def test_a_title_at_the_end_of_a_paragraph_ends_it() -> None:
    text = "Signed by Ms.\n\nThe next paragraph."
    assert [text[start:end] for start, end in find_sentence_spans(text)] == [
        "Signed by Ms.",
        "The next paragraph.",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "Die Frist endet am 3. Oktober 2026.",
        "Resturlaub verfällt am 31. März des folgenden Jahres.",
        "Das Büro liegt im 2. Stock links.",
        "Bringen Sie z. B. einen Ausweis mit.",
        "Bis zum 1. des Monats ist zu zahlen.",
    ],
)
def test_a_dot_inside_a_german_sentence_does_not_end_it(sentence: str) -> None:
    text = f"{sentence} Der Vertrag gilt weiter."
    assert [text[a:b] for a, b in find_sentence_spans(text)] == [
        sentence,
        "Der Vertrag gilt weiter.",
    ]


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in find_sentence_spans(text)]


@pytest.mark.parametrize(
    "clauses",
    [
        ["2. Price and payment", "2.1 The price is EUR 612.", "2.2 Invoices are due\n    at once."],
        ["2.1. The price is EUR 612.", "2.2. Invoices are due at once."],
        ["PRICE", "2.1 The price is EUR 612", "2.2 Invoices are due at once"],
        ["It may end if:", "(a) keys are lost;", "(b) a payment is\nlate; or", "(c) all agree."],
        ["It may end if the Client", "a) is late,", "b) refuses access."],
        ["(i) Keys are lost.", "(ii) All agree."],
        ["1. Keys are lost.", "2. All agree."],
        ["§ 3 Kaution", "(1) Die Kaution beträgt drei Mieten.", "(2) Sie ist verzinst."],
        ["§ 3 (1) Die Miete ist fällig.", "§ 3 (2) Haustiere sind erlaubt."],
        ["2.1 The first one holds 🙂.", "2.2 “Goods” means flour."],
    ],
)
def test_every_clause_begins_a_sentence(clauses: list[str]) -> None:
    assert split("\n".join(clauses)) == clauses


@pytest.mark.parametrize(
    "sentence",
    [
        "Profits rose by\n2.1 per cent in May.",
        "Profits rose by 2.1 The Board did not expect it.",
        "The fees in clauses\n2.1 and 2.2 are due at once.",
        "2.1 The price is due as laid down in clause\n2.2. ",
        "Der Umsatz stieg auf rund\n2.1 Millionen Franken.",
        "Upgrade to version\n2.4.1 Before May this is free.",
        "Nach\n§ 3 Absatz 2 haftet der Mieter.",
        "§ 2 (2) Sie ist zu zahlen bis zum\n31. März 2029.",
        "This holds for paragraphs (a),\n(b) and (c).",
        "As said under\n(a) above, keys are lost.",
        "The office is open on\n31.12.2026 and closed after that.",
    ],
)
def test_a_number_in_a_wrapped_sentence_begins_no_clause(sentence: str) -> None:
    assert split(sentence) == [sentence.strip()]
    assert split(f"2.1 It begins.\n{sentence}")[1:] == [sentence.strip()]


def test_the_number_of_an_item_is_part_of_its_first_sentence() -> None:
    text = "1. The oven failed. Grace asks three makers.\n2. Sales rose."
    assert split(text) == ["1. The oven failed.", "Grace asks three makers.", "2. Sales rose."]
    assert split("(2) Der Mieter zahlt. Er haftet.") == ["(2) Der Mieter zahlt.", "Er haftet."]


def test_a_number_at_the_end_of_a_sentence_ends_it() -> None:
    text = "The room has number 12. Ask for the key."
    assert len(find_sentence_spans(text)) == 2


def test_a_memo_computes_once_keeps_the_last_and_takes_a_result_from_elsewhere() -> None:
    asked: list[str] = []

    def compute(text: str) -> str:
        asked.append(text)
        return text.upper()

    memo = TextMemo(compute, max_entries=2)
    assert [memo[text] for text in ("a", "a", "b", "c")] == ["A", "A", "B", "C"]
    memo.put("d", "elsewhere")
    assert memo["d"] == "elsewhere"
    assert (asked, list(memo)) == (["a", "b", "c"], ["c", "d"])


@pytest.mark.parametrize(
    "text",
    [
        "甲方应付款。\n(2) 乙方应交货。",
        "这是第一句。(1) 第二句在这里。",
        "वह गया। (2) वह आया।",
        "The rate is fixed.[3] (a) The next one.",
    ],
)
def test_a_marked_clause_begins_after_every_kind_of_full_stop(text: str) -> None:
    assert len(find_sentence_spans(text)) == 2
