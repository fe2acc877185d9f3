"""Compare the language of a question with the language of what was found for it."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.index.analyze import detect_language
from ragstone.protocols import Embedder

# So many of the best hits show the language of the documents.
DEPTH = 5
_MAX_CHARS = 600


def find_other_language(question: str, passages: Iterable[str]) -> tuple[str, str] | None:
    """Return the languages of question and passages if they differ; None if that is not sure."""
    asked = detect_language(question)
    if asked is None:
        return None
    found = {detect_language(passage[:_MAX_CHARS]) for passage in passages}
    found.discard(None)
    written = found.pop() if len(found) == 1 else None
    return (asked, written) if written and written != asked else None


def reads_several(embedder: Embedder) -> bool:
    """Return True when an embedder finds passages in another language than the question."""
    languages = getattr(embedder, "languages", None)
    return languages is None or len(languages) > 1


def explain_other_language(embedder: Embedder, asked: str, written: str) -> str | None:
    """Say what would help a question in another language than the documents; None if nothing."""
    languages = getattr(embedder, "languages", None)
    if languages is None or {asked, written} <= languages:
        return None
    asked, written = asked.capitalize(), written.capitalize()
    if len(languages) > 1:
        return (
            f"The question is in {asked} and the documents are in {written}; the embedding model "
            f"{embedder.name} does not read both."
        )
    return (
        f"The question is in {asked} and the documents are in {written}; the embedding model in "
        "use reads only English. To search across languages, run `ragstone models pull "
        "multilingual` and use the preset `multilingual`."
    )


# English text has 3 to 5 letters to a token of the shipped embedder, German and Spanish 2.5,
# Russian 1.0: below this its similarities mean little.
MIN_LETTERS_PER_TOKEN = 1.5


def is_known_script(embedder: Embedder, text: str) -> bool:
    """Return True when the embedder was trained on the script of a text."""
    letters = sum(char.isalnum() for char in text)
    return letters >= MIN_LETTERS_PER_TOKEN * len(embedder.token_starts(text))
