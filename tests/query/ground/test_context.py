"""Sources are numbered in order and never exceed their budgets; a cut is at a sentence's end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.ground.context import ContextBuilder, cut_at_sentence, source_header
from ragstone.query.ground.prompt import build_prompt
from ragstone.testing import HashEmbedder
from ragstone.trace import Span
from ragstone.types import NO_ANSWER, Source

from ..build import hit, query

EMBEDDER = HashEmbedder()
SENTENCES = st.lists(
    st.sampled_from(["The dome opens at nine.", "It rains. 🙂", "Go.", "天文台は開いている。"]),
    min_size=1,
    max_size=12,
).map(" ".join)


def built(
    texts: list[str], *, max_tokens: int = 6000, max_chars: int | None = None
) -> tuple[tuple[Source, ...], Span]:
    span = Span("ground.context", 0.0)
    hits = tuple(hit(text, key=key) for key, text in enumerate(texts, start=1))
    return ContextBuilder(EMBEDDER, max_tokens, max_chars).build(hits, span), span


@given(st.lists(SENTENCES, max_size=8), st.integers(16, 200), st.none() | st.integers(64, 600))
def test_the_budgets_hold_and_every_text_is_a_beginning(
    texts: list[str], max_tokens: int, max_chars: int | None
) -> None:
    sources, _ = built(texts, max_tokens=max_tokens, max_chars=max_chars)
    headers = [source_header(source.number, source.hit) for source in sources]
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
