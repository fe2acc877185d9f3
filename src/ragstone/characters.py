"""Characters that some store or reply cannot carry: NUL, and half of a surrogate pair."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """The text without them: what a model wrote is not refused for one."""
    return _UNSTORABLE.sub("", text)
