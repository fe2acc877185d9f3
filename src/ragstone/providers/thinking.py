"""Take thoughts out of a text that a model streams: `<think>…</think>` at its beginning."""

from __future__ import annotations

from typing import Literal

from ragstone.providers.capabilities import InlineThoughts

_OPEN, _CLOSE = "<think>", "</think>"


class ThoughtFilter:
    """Pass on the text after the thoughts. Feed it the pieces, and close it at the end.

    With "open" the first tag may be missing, because the prompt already held it: everything is held
    back until the closing tag, and passed on at the end if there is none. A text that only mentions
    the tags later is not changed.
    """

    def __init__(self, kind: InlineThoughts) -> None:
        self._kind = kind
        self._held = ""
        self._saw_tag = False
        self._state: Literal["begin", "thinking", "after", "text"] = "begin" if kind else "text"

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now; it may be empty."""
        if self._state == "text":
            return piece
        self._held += piece
        if self._state == "begin":
            self._state = self._look_at_begin(self._held.lstrip())
        if self._state == "thinking":
            _, tag, after = self._held.partition(_CLOSE)
            if tag:
                self._held, self._state = after, "after"
        if self._state == "after":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "after"
        return self._release() if self._state == "text" else ""

    def close(self) -> str:
        """Return what is left. Thoughts that never ended are not text."""
        return "" if self._saw_tag or self._state == "after" else self._release()

    def _look_at_begin(self, start: str) -> Literal["begin", "thinking", "text"]:
        if len(start) < len(_OPEN) and _OPEN.startswith(start):
            return "begin"
        self._saw_tag = start.startswith(_OPEN)
        return "thinking" if self._saw_tag or self._kind == "open" else "text"

    def _release(self) -> str:
        text, self._held = self._held, ""
        return text
