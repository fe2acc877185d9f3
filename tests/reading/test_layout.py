"""The structure of a text, and what a sentence cannot be read without."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.layout import (
    clean_for_reading,
    complete_span,
    find_blocks,
    needs_more_text,
    widen_sentence,
)
from ragstone.text import find_sentence_spans

PAGE = """Some text about logs.

If the container crashed, you can read its last log with:

```shell
kubectl logs --previous my-pod
```

Some typical uses are:

- running a storage daemon on every node
- running a log collector on every node

1. Stop the pump.
2. Close the valve with:

   ```
   valve --close
   ```
3. Call the warden.

The end.
"""


def widen(sentence: str, *, whole_list: bool = False) -> list[str]:
    start = PAGE.index(sentence)
    found = widen_sentence(PAGE, (start, start + len(sentence)), whole_list=whole_list)
    return [PAGE[begin:end].strip() for begin, end in found.spans]


def test_a_lead_in_brings_its_listing() -> None:
    lead = "If the container crashed, you can read its last log with:"
    assert widen(lead) == [lead, "```shell\nkubectl logs --previous my-pod\n```"]


def test_a_lead_in_brings_its_list() -> None:
    assert len(widen("Some typical uses are:")) == 3


def test_a_listing_brings_its_lead_in() -> None:
    found = widen("```shell\nkubectl logs --previous my-pod\n```")
    assert found[0].startswith("If the container crashed")


def test_an_item_brings_its_lead_in_and_on_request_the_whole_list() -> None:
    item = "- running a log collector on every node"
    assert widen(item) == ["Some typical uses are:", item]
    assert len(widen(item, whole_list=True)) > 2


def test_steps_keep_the_listing_between_them() -> None:
    steps = widen("1. Stop the pump.", whole_list=True)
    assert any("valve --close" in step for step in steps)
    assert steps[-1] == "3. Call the warden."


def test_a_second_lead_in_brings_the_listing_as_well() -> None:
    text = "Use the flag. For example:\n\n```\nrun --flag\n```\n"
    found = widen_sentence(text, (0, len("Use the flag.")), whole_list=True)
    assert [text[start:end] for start, end in found.spans] == [
        "Use the flag. For example:", "```\nrun --flag\n```",
    ]  # fmt: skip


def test_a_plain_sentence_stands_alone() -> None:
    assert widen("The end.") == ["The end."]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("Plain prose. Nothing else.", (False, False)),
        ("The uses are:", (False, True)),
        ("- one\n- two", (True, True)),
        ("Read it with:\n\n```\nls", (True, True)),
    ],
)
def test_text_that_a_border_cut_is_noticed(text: str, needs: tuple[bool, bool]) -> None:
    assert needs_more_text(text) == needs


def test_a_cut_list_is_completed_and_nothing_else_is_added() -> None:
    start = PAGE.index("- running a storage")
    end = start + len("- running a storage daemon on every node")
    begin, stop = complete_span(PAGE, start, end)
    assert PAGE[begin:stop].startswith("Some typical uses are:")
    assert "log collector" in PAGE[begin:stop]
    assert "The end." not in PAGE[begin:stop]


NOISY = """---
title: Logs
weight: 3
---
<!-- a remark -->
A {{< glossary_tooltip text="Pod" term_id="pod" >}} has **one** [log](/docs/logs) {{< note >}}here.
"""


def test_what_only_a_machine_reads_is_removed() -> None:
    assert " ".join(clean_for_reading(NOISY).text.split()) == "A Pod has one log here."


@given(st.text(alphabet="ab [](){}<>!-*`\n.:|#", max_size=80))
def test_every_clean_character_is_found_in_the_stored_text(text: str) -> None:
    clean = clean_for_reading(text)
    assert "".join(text[place] for place in clean.places) == clean.text


@given(st.text(alphabet="a1 -*|`#:.\n", max_size=80))
def test_whatever_the_text_blocks_do_not_overlap_and_spans_lie_inside(text: str) -> None:
    blocks = find_blocks(text)
    assert all(one.end <= two.start for one, two in itertools.pairwise(blocks))
    for span in find_sentence_spans(text):
        for start, end in widen_sentence(text, span, whole_list=True).spans:
            assert 0 <= start < end <= len(text)


@pytest.mark.parametrize("line", ["a: b\n", " a: b\n", "- a\n", "\n", "a: - b\n", "-a:\n"])
def test_front_matter_without_an_end_costs_nothing(line: str) -> None:
    text = "---\n" + 400 * line
    start = time.process_time()
    assert clean_for_reading(text).text == text
    assert time.process_time() - start < 1


def test_front_matter_is_removed() -> None:
    text = "---\ntitle: Pods\nweight: 10\ntags:\n- a\n  - b\n\n---\nA pod is a group.\n"
    assert clean_for_reading(text).text == "A pod is a group.\n"


CONTRACT = """2. Price and payment
2.1 The price is EUR 612 per tonne, as agreed in
(a) above.
2.2 Invoices are due within 21 days. Interest is owed
    after that.
3. End
(a) keys are lost.
The Client may end it if the Contractor
a) is late, or
b) refuses access."""


def show(sentence: str) -> list[str]:
    start = CONTRACT.index(sentence)
    found = widen_sentence(CONTRACT, (start, start + len(sentence)))
    return [CONTRACT[begin:end] for begin, end in found.spans]


def test_a_clause_is_a_paragraph_of_its_own() -> None:
    blocks = [CONTRACT[block.start : block.end] for block in find_blocks(CONTRACT)]
    assert blocks[0] == "2. Price and payment"
    assert blocks[1].endswith("(a) above.")
    assert blocks[2].endswith("after that.")
    due = "2.2 Invoices are due within 21 days."
    assert show(due) == [due]


def test_an_item_ends_before_a_line_that_begins_a_sentence() -> None:
    assert show("(a) keys are lost.") == ["3. End", "(a) keys are lost."]


def test_a_sentence_that_goes_on_in_a_list_is_its_lead_in() -> None:
    lead = "The Client may end it if the Contractor"
    assert show(lead) == [lead, "a) is late, or", "b) refuses access."]
    assert show("b) refuses access.") == [lead, "b) refuses access."]
