"""A question and a passage, cut so that the cross-encoder can read both."""

from __future__ import annotations

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.models.reranker import MAX_TOKENS, load_pair_tokenizer

QUESTION, PASSAGE = "When does the dome open?", "The dome opens at nine. " * 200


@pytest.mark.parametrize(
    ("question", "passage"),
    [(QUESTION, PASSAGE), (PASSAGE, QUESTION), (PASSAGE, PASSAGE), (PASSAGE, "")],
    ids=["long passage", "long question", "both long", "no passage"],
)
def test_a_pair_always_fits_and_both_are_read(
    embedder: OnnxEmbedder, question: str, passage: str
) -> None:
    encoding = load_pair_tokenizer(embedder.tokenizer_file).encode(question, passage)
    assert len(encoding.ids) <= MAX_TOKENS
    whole = load_pair_tokenizer(embedder.tokenizer_file)
    whole.no_truncation()
    shorter = min((question, passage), key=len)
    if len(whole.encode(shorter).ids) < MAX_TOKENS // 2:
        assert [
            token for token in whole.encode(shorter).tokens if token not in encoding.tokens
        ] == []
