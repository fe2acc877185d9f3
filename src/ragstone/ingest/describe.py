"""What is known of a document besides its text: title, language, and what its file says."""

from __future__ import annotations

import re
from typing import Any

from ragstone.reading import Loaded

# More text does not change the verdict, and the classifier's time grows with it.
_LANGUAGE_CHARS = 2_000
_LETTER = re.compile(r"[^\W\d_]")


def describe(loaded: Loaded) -> dict[str, Any]:
    """The loader's metadata with a title and a language, where the text tells."""
    metadata = dict(loaded.metadata)
    if not metadata.get("title") and loaded.headings:
        metadata["title"] = loaded.headings[0].title
    language = detect_language(loaded.text)
    if language:
        metadata["language"] = language
    return metadata


def detect_language(text: str) -> str | None:
    """The ISO 639-1 code of the language a text is most likely in; None for too little text."""
    sample = text[:_LANGUAGE_CHARS]
    if len(_LETTER.findall(sample)) < 20:
        return None
    import py3langid

    return str(py3langid.classify(sample)[0])
