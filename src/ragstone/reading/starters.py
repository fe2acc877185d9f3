"""List the topics of documents and questions to start with, from their headings and titles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ragstone.reading.outline import clean_label

_MAX_TOPIC_WORDS, _MAX_TOPIC_CHARS = 6, 60
_MIN_QUESTION_WORDS, _MAX_TITLE_CHARS = 4, 80


def list_starters(
    paths: Iterable[Sequence[str]], titles: Iterable[str], *, limit: int = 6
) -> list[str]:
    """List headings that ask a question, and a summary of each title, up to a limit."""
    headings = [clean_label(heading) for path in paths for heading in path]
    asked = [
        heading
        for heading in headings
        if heading.endswith(("?", "？")) and len(heading.split()) >= _MIN_QUESTION_WORDS
    ]
    summaries = [f"Summarize {title}" for title in titles if len(title) <= _MAX_TITLE_CHARS]
    return list(dict.fromkeys([*asked[: limit // 2], *summaries]))[:limit]


def list_topics(paths: Iterable[Sequence[str]], *, limit: int = 12) -> list[str]:
    """List the headings that most say what a collection is about: frequent, short and high up."""
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for path in paths:
        for depth, heading in enumerate(path):
            name = clean_label(heading)
            is_short = len(name) <= _MAX_TOPIC_CHARS and len(name.split()) <= _MAX_TOPIC_WORDS
            if len(name) > 2 and is_short and not name.endswith(("?", "？")) and "|" not in name:
                spelled.setdefault(name.casefold(), name)
                # The title of a document names a topic; a heading deep inside rarely does.
                counts[name.casefold()] += max(1, 3 - depth)
    return [spelled[key] for key, _ in counts.most_common(limit)]
