"""Markdown keeps its source text; headings, tables, code and the YAML head are found in it."""

from __future__ import annotations

from ragstone.blocks import LoadOptions
from ragstone.ingest.formats.text import MarkdownLoader, split_front_matter

PAGE = """---
title: Opening hours
tags: [visit, hours]
valid: 2025-04-01
---
# Opening hours

Open daily. 🙂

## Prices

| who | price |
|-----|-------|
| all | 5 €   |

```python
# not a heading
```

Later
-----

Text.
"""


def test_headings_point_at_their_lines() -> None:
    loaded = MarkdownLoader().load(PAGE.encode(), LoadOptions())
    assert [(h.level, h.title) for h in loaded.headings] == [
        (1, "Opening hours"),
        (2, "Prices"),
        (2, "Later"),
    ]
    for heading in loaded.headings:
        line = loaded.text[heading.start :].partition("\n")[0]
        assert line.lstrip("# ") == heading.title


def test_tables_and_code_are_blocks() -> None:
    loaded = MarkdownLoader().load(PAGE.encode(), LoadOptions())
    blocks = [(b.content_type, loaded.text[b.start : b.end].strip()) for b in loaded.blocks]
    assert [kind for kind, _ in blocks] == ["table", "code"]
    assert blocks[0][1].startswith("| who | price |")
    assert blocks[1][1].endswith("```")


def test_the_yaml_head_becomes_metadata_and_leaves_the_text() -> None:
    loaded = MarkdownLoader().load(PAGE.encode(), LoadOptions())
    assert loaded.text.startswith("# Opening hours")
    assert loaded.metadata == {
        "title": "Opening hours",
        "tags": ["visit", "hours"],
        "valid": "2025-04-01",
    }


def test_a_head_that_is_no_yaml_mapping_stays_text() -> None:
    for text in ("---\n: [\n---\nBody.", "---\njust words\n---\nBody.", "No head at all."):
        assert split_front_matter(text) == (text, {})


def test_nested_values_of_the_head_are_plain() -> None:
    text = "---\nowner: {since: 2020-01-02, 7: yes}\n---\nBody."
    assert split_front_matter(text) == ("Body.", {"owner": {"since": "2020-01-02", "7": True}})


def test_a_file_that_is_only_a_head_has_no_text() -> None:
    loaded = MarkdownLoader().load(b"---\ntitle: Empty\n---\n", LoadOptions())
    assert (loaded.text, loaded.metadata) == ("", {"title": "Empty"})
