"""Sources are numbered in order and never exceed their budgets; a cut is at a sentence's end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.ground.context import (
    CHAT_CONTEXT_CHARS,
    BudgetContextBuilder,
    cut_at_sentence,
    format_source_header,
)
from ragstone.query.ground.prompt import build_prompt, order_sources
from ragstone.settings import GroundSettings
from ragstone.testing import HashEmbedder
from ragstone.trace import Span
from ragstone.types import NO_ANSWER, Chunk, Hit, Message, Query, Source

from ..build import hit, query

EMBEDDER = HashEmbedder()
SENTENCES = st.lists(
    st.sampled_from(["The dome opens at nine.", "It rains. 🙂", "Go.", "天文台は開いている。"]),
    min_size=1,
    max_size=12,
).map(" ".join)


def built(
    texts: list[str], *, max_tokens: int = 6000, max_chars: int | None = None,
    question: str = "", **options: object,
) -> tuple[tuple[Source, ...], Span]:  # fmt: skip
    span = Span("ground.context", 0.0)
    hits = tuple(hit(text, key=key) for key, text in enumerate(texts, start=1))
    settings = GroundSettings(max_context_tokens=max_tokens, max_context_chars=max_chars, **options)  # type: ignore[arg-type]
    return BudgetContextBuilder(EMBEDDER, settings).build(Query("q", question), hits, span), span


@given(st.lists(SENTENCES, max_size=8), st.integers(16, 200), st.none() | st.integers(64, 600))
def test_the_budgets_hold_and_every_text_is_a_beginning(
    texts: list[str], max_tokens: int, max_chars: int | None
) -> None:
    sources, _ = built(texts, max_tokens=max_tokens, max_chars=max_chars)
    headers = [format_source_header(source.number, source.hit) for source in sources]
    whole = [*headers, *(source.text for source in sources)]
    assert sum(len(EMBEDDER.token_starts(text)) for text in whole) <= max_tokens
    assert max_chars is None or sum(map(len, whole)) <= max_chars
    for number, source in enumerate(sources, start=1):
        assert source.number == number
        assert source.hit.chunk.text.startswith(source.text)
        assert source.end - source.start == len(source.text)


def test_everything_that_fits_is_there() -> None:
    sources, span = built(["One.", "Two."])
    assert [source.text for source in sources] == ["One.", "Two."]
    assert span.counts["final_chunks_count"] == 2
    assert span.notes == []


def test_what_does_not_fit_is_cut_at_a_sentence_and_noted() -> None:
    text = "The dome opens at nine. The gate closes at ten."
    sources, span = built([text, "More."], max_chars=70)
    assert [source.text for source in sources] == ["The dome opens at nine."]
    assert span.notes


def test_a_source_names_its_document_page_and_section() -> None:
    chunk = Chunk("d", 0, "One.", 0, 4, "lease.pdf", page=3, heading_path=("Lease", "Notice"))
    header = format_source_header(2, Hit(chunk, 0.5, "hybrid"))
    assert header == "[Source 2]\nDocument: lease.pdf\nPage: 3\nSection: Lease > Notice"


def test_the_chat_style_has_a_limit_of_its_own() -> None:
    hits = tuple(hit("The dome opens at nine. " * 50, key=key) for key in range(1, 12))
    builder = BudgetContextBuilder(EMBEDDER, GroundSettings(max_context_tokens=100_000))
    sizes = {}
    for style in ("source", "chunk"):
        asked = Query("q", "", citation_style=style)  # type: ignore[arg-type]
        sources = builder.build(asked, hits, Span("ground.context", 0.0))
        sizes[style] = sum(len(source.text) for source in sources)
    assert sizes["source"] > 13_000
    assert 7_000 < sizes["chunk"] <= CHAT_CONTEXT_CHARS == 8_000


def test_nothing_is_cut_inside_a_sentence() -> None:
    assert cut_at_sentence("One two three.", lambda part: len(part) < 5) == ""


def test_the_prompt_holds_system_documents_and_question_in_that_order() -> None:
    sources, _ = built(["The dome opens at nine."])
    prompt = build_prompt(query("When does it open?"), sources)
    assert [message.role for message in prompt.messages] == ["system", "user"]
    system = prompt.messages[0].content
    assert NO_ANSWER in system
    assert system.index("[Source N]") < system.index("[Source 1]\nDocument: doc.txt")
    assert prompt.messages[1].content == "When does it open?"


def test_a_slot_inside_a_document_is_not_filled() -> None:
    sources, _ = built(["Write {sources} and {no_answer}."])
    assert "Write {sources} and {no_answer}." in build_prompt(query(), sources).messages[0].content


@given(st.lists(SENTENCES, max_size=6), st.floats(0.1, 0.9), st.integers(30, 200))
def test_what_compression_keeps_is_whole_sentences_in_order_within_the_budget(
    texts: list[str], ratio: float, max_tokens: int
) -> None:
    sources, _ = built(
        texts, max_tokens=max_tokens, question="When does the dome open?", compression_ratio=ratio
    )
    shown = [format_source_header(s.number, s.hit) for s in sources] + [
        s.prompt_text for s in sources
    ]
    assert sum(len(EMBEDDER.token_starts(text)) for text in shown) <= max_tokens
    for source in sources:
        assert source.hit.chunk.text.startswith(source.text)
        at = 0
        for piece in source.prompt_text.split(" … "):
            at = source.text.index(piece.strip("… "), at)


def test_compression_drops_what_has_least_to_do_with_the_question() -> None:
    text = "The dome opens at nine. Penguins eat fish. Soup is sold on weekdays."
    sources, span = built([text], question="When does the dome open?", compression_ratio=0.4)
    assert sources[0].prompt_text == "The dome opens at nine."
    assert sources[0].text == text
    assert span.counts["compressed_to_chars"] < span.counts["compressed_from_chars"]
    assert "Penguins" not in build_prompt(query(), sources).messages[0].content


def test_a_dropped_sentence_in_the_middle_leaves_a_mark() -> None:
    text = "The dome opens at nine. Penguins eat fish. The dome opens for all."
    sources, _ = built([text], question="When does the dome open?", compression_ratio=0.8)
    assert sources[0].prompt_text == "The dome opens at nine. … The dome opens for all."


def test_the_best_sources_stand_at_the_edges_and_keep_their_numbers() -> None:
    sources, _ = built(["One.", "Two.", "Three.", "Four.", "Five."])
    assert [source.number for source in order_sources(sources, "edges")] == [1, 3, 5, 4, 2]
    assert [source.number for source in order_sources(sources, "best_first")] == [1, 2, 3, 4, 5]
    prompt = build_prompt(query(), sources, order="edges").messages[0].content
    assert prompt.index("[Source 3]\n") < prompt.index("[Source 2]\n")


def test_the_history_stands_between_documents_and_question() -> None:
    sources, _ = built(["The dome opens at nine."])
    before = (Message("user", "Hello"), Message("assistant", "Hi"))
    messages = build_prompt(query("When?", history=before), sources).messages
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[-1].content == "When?"
    chat = query("When?", history=before, citation_style="chunk")
    assert [m.role for m in build_prompt(chat, sources).messages] == ["user", "assistant", "user"]
