"""A question as typed → a question that can be used, or a clear refusal."""

from __future__ import annotations

import unicodedata

from ragstone.errors import InputError


def clean_question(text: str, *, min_chars: int, max_chars: int) -> str:
    """Drop control characters, trim, and hold the length to its limits."""
    if not text.isprintable():  # most questions are: one look for all of their characters
        text = "".join(" " if char in "\t\n\r" else char for char in text if _is_text(char))
    question = " ".join(text.split())
    if len(question) < min_chars:
        raise InputError(
            f"The question has {len(question)} characters; at least {min_chars} are needed.",
            hint="Ask a whole question.",
        )
    if len(question) > max_chars:
        raise InputError(
            f"The question has {len(question):,} characters; at most {max_chars:,} are allowed.",
            hint="Shorten it, or raise RAGSTONE_UNDERSTAND_MAX_CHARS.",
        )
    return question


def _is_text(char: str) -> bool:
    # Cc: control, Cs: lone surrogates, Co: private use. Format characters (Cf) join emoji and
    # shape Arabic, so they stay.
    return char in "\t\n\r" or unicodedata.category(char) not in ("Cc", "Cs", "Co")
