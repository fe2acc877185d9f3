"""Say what helps when the embedder does not read the language of the documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ragstone.index.analyze import get_language_name
from ragstone.models.embedder import MULTILINGUAL
from ragstone.protocols import Embedder


def explain_unread_languages(codes: Mapping[str, int], embedder: Embedder) -> str:
    """Say what to do if most documents are in languages that the embedder does not read.

    `codes` are the numbers of documents by their language. Empty if there is nothing to say.
    """
    read: frozenset[str] | None = getattr(embedder, "languages", None)
    counts = Counter({get_language_name(code): count for code, count in codes.items()})
    if read is None or not counts:
        return ""
    unread = Counter({name: count for name, count in counts.items() if name not in read})
    if unread.total() * 2 <= counts.total():
        return ""
    named = ", ".join(name.capitalize() for name, _ in unread.most_common(2))
    if "english" not in read or len(read) > 1 or not unread.keys() & MULTILINGUAL:
        return (
            "Most of these documents are in a language that the embedding model "
            f"{embedder.name} does not read ({named}): they are found by their words, hardly by "
            "their meaning."
        )
    # One whole sentence each: the catalogues translate it by its text.
    return (
        f"Most of these documents are in a language that the embedding model {embedder.name} does "
        f"not read ({named}): they are found by their words, hardly by their meaning. "
        "To change that: ragstone models pull multilingual, then ragstone reindex --embed "
        "--preset multilingual, and RAGSTONE_PRESET=multilingual from then on."
    )
