"""Find the question in a long message: people paste a text and ask about it.

message → the question, and the rest of the message as context.
"""

from __future__ import annotations

import re

from ragstone.text import find_sentence_spans, normalize_words

_ASKS = re.compile(r"[?？]['\"”’)\]]*\s*$")
_PARAGRAPH = re.compile(r"\n\s*\n")
_POLITE = frozenset({"please", "bitte", "kindly"})
_ORDERS = frozenset(
    """
    list show tell explain describe compare name give summarize summarise find define
    write translate nenne zeige erkläre vergleiche explica compara resume explique résume spiega
    elenca leg noem
    """.split()  # noqa: SIM905  a list of words reads better as text
)


def split_long_message(text: str, *, max_chars: int) -> tuple[str, str]:
    """Return the question of a message and what stands around it.

    People ask after the pasted text, or before it; so the last paragraph is looked at first, then
    the first one. Without any question mark an order ("explain …") counts, and then the first
    sentence.
    """
    paragraphs = [part for part in _PARAGRAPH.split(text.strip()) if part.strip()]
    for is_question in (_ASKS.search, _is_order):
        for paragraph in (paragraphs[-1], paragraphs[0], text):
            sentences = [paragraph[start:end] for start, end in find_sentence_spans(paragraph)]
            asked = [part for part in sentences if is_question(part) and len(part) <= max_chars]
            if asked:
                return asked[-1], _cut_out(text, asked[-1])
    start, end = find_sentence_spans(text)[0]
    first = text[start:end][:max_chars]
    return first, _cut_out(text, first)


def _is_order(sentence: str) -> bool:
    words = normalize_words(sentence)[:4]
    return bool(words) and (words[0] in _ORDERS or bool(_POLITE & set(words)))


def _cut_out(text: str, part: str) -> str:
    at = text.rfind(part)
    return f"{text[:at]}\n{text[at + len(part) :]}".strip()
