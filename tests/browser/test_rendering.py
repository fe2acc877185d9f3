"""Answers and documents as Markdown: what it shows, and what it refuses to show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.types import Prompt

from ..conftest import settings_in
from ..patience import LONG_S
from ..server.conftest import serve
from .conftest import ask, go

PRICES = """# Prices

The basic plan costs 12 euros a month. The team plan costs 30 euros a month.

| Plan | Price |
|------|-------|
| Basic | 12 euros |
| Team | 30 euros |

1. Choose a plan.
2. Pay with a card.

```python
print("<b>plan</b>")
```

![Logo](https://example.org/logo.png) [Terms](https://example.org/terms) [Bad](javascript:alert(1))
"""
LONG = "\n\n".join(f"Paragraph {number} says that the gate is green." for number in range(60))
WRITTEN = {
    "formatted": """## Plans

The **basic** plan costs `12 euros` a month [Source 2]. The team plan costs 30 euros [Source 1].

- The *basic* plan is small [Source 2].
  - It costs 12 euros a month [Source 2].

| Plan | Price |
|---|---|
| Basic | 12 euros [Source 2] |

```python
print("<b>plan</b>")
```

<b onclick="alert(1)">bold</b> ![spy](https://example.org/spy.png) snake_case_name 2 * 3 * 4
""",
    "long": LONG,
}


class Writer:
    """Write a prepared text, chosen by a word of the question."""

    name = "writer"
    model = "script"

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        text = next((one for word, one in WRITTEN.items() if word in prompt.question), "None.")
        for piece in text.split(" "):
            yield f"{piece} "
            await asyncio.sleep(0)


@pytest.fixture(scope="module")
def address(embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = settings_in(
        tmp_path_factory.mktemp("rendering"), **{"check.max_iterations": 0, "refine.top_k": 3}
    )
    for url in serve(Engine(settings, embedder=embedder, provider=Writer())):
        for name, text in (
            ("guide/_index.md", PRICES), ("shop/_index.md", "The basic plan costs 12 euros."),
            ("notes.txt", "The team plan costs 30 euros a month, says the formatted note."),
        ):  # fmt: skip
            reply = httpx.post(f"{url}/v1/documents", json={"name": name, "text": text},
                               timeout=LONG_S)  # fmt: skip
            assert reply.status_code == 201, reply.text
        yield url


def test_markdown_of_an_answer_is_rendered(page: Page) -> None:
    ask(page, "What does the formatted plan cost?")
    answer = page.locator(".answer")
    expect(answer.get_by_role("heading", name="Plans")).to_be_visible()
    expect(answer.locator("strong").filter(has_text="basic")).to_be_visible()
    expect(answer.locator("p code")).to_have_text("12 euros")
    expect(answer.locator("ul > li > ul > li")).to_contain_text("12 euros a month")
    expect(answer.get_by_role("cell", name="Basic")).to_be_visible()
    expect(answer.locator("pre")).to_have_text('print("<b>plan</b>")')
    for literal in ("**", "| Plan |", "```", "##"):
        expect(answer).not_to_contain_text(literal)
    expect(answer).to_contain_text("snake_case_name 2 * 3 * 4")


def test_nothing_in_an_answer_is_markup_or_fetched(page: Page) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    ask(page, "What does the formatted plan cost?")
    answer = page.locator(".answer")
    expect(answer).to_contain_text('<b onclick="alert(1)">bold</b>')
    assert answer.locator("img, [onclick]").count() == 0
    assert not any("example.org" in url for url in fetched)


def test_code_is_copied_by_its_button(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    ask(page, "What does the formatted plan cost?")
    page.get_by_role("button", name="Copy code").click()
    expect(page.locator(".toast")).to_contain_text("The code is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == 'print("<b>plan</b>")'


def test_citations_are_numbered_as_they_appear(page: Page) -> None:
    ask(page, "What does the formatted plan cost?")
    numbers = [int(text) for text in page.locator(".answer .chip").all_inner_texts()]
    first_seen = list(dict.fromkeys(numbers))
    assert first_seen == list(range(1, len(first_seen) + 1))
    assert numbers[0] == 1
    cards = page.locator(".sources .chip").all_inner_texts()
    assert cards == [str(number) for number in range(1, len(cards) + 1)]


def test_files_of_the_same_name_are_told_apart(page: Page) -> None:
    ask(page, "What does the formatted plan cost?")
    cards = " ".join(page.locator(".source-name").all_inner_texts())
    assert "/_index.md" in cards
    chip = page.locator(".answer .chip").first
    assert "/" in (chip.get_attribute("aria-label") or "")


@pytest.mark.parametrize("size", [(1280, 860), (375, 740)])
def test_a_long_answer_does_not_end_under_the_composer(
    open_page: Callable[..., Page], address: str, size: tuple[int, int]
) -> None:
    page = open_page(viewport={"width": size[0], "height": size[1]})
    page.goto(address)
    ask(page, "Is the long gate green?")
    last = page.locator(".turn .actions")
    last.scroll_into_view_if_needed()
    end, composer = last.bounding_box(), page.locator(".composer").bounding_box()
    assert end is not None
    assert composer is not None
    assert end["y"] + end["height"] <= composer["y"]
    assert composer["y"] + composer["height"] <= size[1]


def test_a_document_is_shown_as_it_is_meant_with_its_span_marked(page: Page) -> None:
    go(page, "Documents")
    page.get_by_role("button", name="guide/_index.md", exact=True).click()
    source = page.locator("#source")
    expect(source.get_by_role("heading", name="Prices")).to_be_visible()
    expect(source.get_by_role("cell", name="30 euros")).to_be_visible()
    expect(source.locator("ol > li")).to_have_count(2)
    expect(source.locator("pre")).to_have_text('print("<b>plan</b>")')
    expect(source).to_contain_text("[image: Logo]")
    expect(source.get_by_role("link", name="Terms")).to_have_attribute(
        "rel", "noopener noreferrer nofollow"
    )
    expect(source).to_contain_text("[Bad](javascript:alert(1))")
    source.get_by_role("button", name="Text", exact=True).click()
    expect(source.locator(".text")).to_contain_text("|------|-------|")


def test_a_preview_does_not_survive_navigation(page: Page) -> None:
    ask(page, "What does the formatted plan cost?")
    page.locator(".answer .chip").first.hover()
    expect(page.locator("#preview")).to_be_visible()
    page.evaluate("location.hash = '#/documents'")
    expect(page.locator("#preview")).to_be_hidden()
