"""Make questions and topics from documents, for readers to start with.

Passages in, candidates out: ask a question first, and offer it only when it is answered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragstone.text import find_sentence_spans, remove_markup

_MAX_TOPIC_WORDS = 6
_MAX_ACRONYM = 5
_NUMBERING = re.compile(r"^(?:§\s*)?(?:\d+(?:\.\d+)*|[A-Z]|[ivxIVX]+)[.)]?\s+(?=\S)")
# Headings that every document may have say nothing about this collection.
_GENERIC = frozenset(
    {
        "abstract", "introduction", "overview", "summary", "contents", "conclusion", "conclusions",
        "references", "appendix", "annex", "index", "notes", "about", "background", "preface",
        "glossary", "faq", "readme", "license", "general", "definitions", "scope", "purpose",
        "miscellaneous", "usage", "example", "examples", "see", "also", "installation",
    }
)  # fmt: skip
_SUBJECT = r"(?P<subject>(?:[Tt]he|[Oo]ur|[Aa]n?) [\w' -]{3,48}?|[A-Z][\w'-]+)"
_AMOUNT = r"(?:about |up to |at least |only )?(?:EUR|USD|GBP|CHF|[€$£])\s?\d"
_MOMENT = (
    r"(?:on|at|in|from) (?:\d{1,2}(?:[:.]\d\d| )|\d{4}\b|(?:January|February|March|April|May|June"
    r"|July|August|September|October|November|December|Monday|Tuesday|Wednesday|Thursday|Friday"
    r"|Saturday|Sunday|noon|midnight|sunset|sunrise)\b)"
)
_ROLES = (
    "officer|director|manager|secretary|treasurer|board|committee|chair|chairman|president|editor"
    "|engineer|operator|tenant|landlord|caterer|supplier|customer|team|trust|council|author"
)


@dataclass(frozen=True, slots=True)
class Starter:
    """Hold a question, and the sentence that should answer it."""

    question: str
    sentence: str


def _lower_first(subject: str) -> str:
    first, _, rest = subject.partition(" ")
    is_article = first.lower() in {"the", "our", "a", "an"}
    return f"{first.lower()} {rest}" if is_article and rest else subject


def _lower_plural(subject: str, verb: str) -> str:
    """Write "Invoices are" as "are invoices": a single word before `are` is not a name."""
    is_common = verb == "are" and " " not in subject
    return subject.lower() if is_common else _lower_first(subject)


def _ask_when(match: re.Match[str]) -> str:
    verb = match["verb"]
    base = verb.removesuffix("es") if verb in {"closes", "takes"} else verb.removesuffix("s")
    base = {"clos": "close", "tak": "take"}.get(base, base)
    return f"When does {_lower_first(match['subject'])} {base}{match['rest'] or ''}?"


def _ask_how_long(match: re.Match[str]) -> str:
    subject = _lower_plural(match["subject"], match["verb"])
    return f"How long {match['verb']} {subject} {match['done']}?"


# Each pattern matches the beginning of a sentence; what it makes of it is the question.
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(rf"{_SUBJECT} (?:is|are|amounts to) {_AMOUNT}"),
        lambda match: f"How much is {_lower_first(match['subject'])}?",
    ),
    (
        re.compile(rf"{_SUBJECT} costs {_AMOUNT}"),
        lambda match: f"How much does {_lower_first(match['subject'])} cost?",
    ),
    (
        re.compile(
            rf"{_SUBJECT} (?P<verb>begins|ends|starts|opens|closes|expires|takes)"
            rf"(?P<rest> place)? {_MOMENT}"
        ),
        _ask_when,
    ),
    (
        re.compile(
            rf"{_SUBJECT} was (?P<verb>founded|built|made|signed|opened|installed|bought|written"
            rf"|adopted|renovated) (?:\w+ ){{0,3}}?{_MOMENT}"
        ),
        lambda match: f"When was {_lower_first(match['subject'])} {match['verb']}?",
    ),
    (
        re.compile(
            rf"{_SUBJECT} (?P<verb>is|are) (?P<done>kept|stored|valid|concluded|retained|open)"
            r" for (?:\d+|two|three|four|five|six|ten|twelve) "
        ),
        _ask_how_long,
    ),
    (
        re.compile(
            rf"[Tt]he (?:\w+ )?(?:{_ROLES}) (?P<verb>(?!thanks|is\b|has\b|was\b)[a-z]+s) "
            r"(?P<object>(?:the |all )?[a-z][\w' -]{3,40}?)"
            r"(?=[,.;]| and | before | by | at | within | to )"
        ),
        lambda match: f"Who {match['verb']} {match['object']}?",
    ),
    (
        re.compile(
            rf"{_SUBJECT} has (?:\d+|two|three|four|five|six|seven|eight|nine|ten|twelve) "
            r"(?P<things>(?:[a-z-]+ ){0,2}[a-z-]+s)\b"
        ),
        lambda match: f"How many {match['things']} does {_lower_first(match['subject'])} have?",
    ),
    (
        re.compile(r"(?P<subject>(?:The |An? )?[A-Z][\w'-]+(?: [\w'-]+){0,3}?) is an? [a-z]"),
        lambda match: f"What is {_lower_first(match['subject'])}?",
    ),
)
_VAGUE = re.compile(
    r"\b(?:it|this|that|these|those|they|he|she|there|which|following|above|below|one|other|each|every)\b",
    re.IGNORECASE,
)


def list_starters(passages: Iterable[tuple[Sequence[str], str]]) -> list[Starter]:
    """List questions that passages seem to answer, in their order; each has a heading path."""
    found: dict[str, Starter] = {}
    for path, text in passages:
        for one in _read_passage(path, text):
            found.setdefault(one.question.casefold(), one)
    return list(found.values())


def _read_passage(path: Sequence[str], text: str) -> Iterator[Starter]:
    heading = _NUMBERING.sub("", path[-1].strip()) if path else ""
    plain = remove_markup(text)
    sentences = [plain[start:end] for start, end in find_sentence_spans(plain)]
    # A heading of a list of questions and answers is the best question there is.
    if heading.endswith("?") and len(heading.split()) > 2 and sentences:
        yield Starter(heading, sentences[-1] if len(sentences) == 1 else sentences[0])
    for sentence in sentences:
        cleaned = _NUMBERING.sub("", " ".join(sentence.split()))
        if not 25 <= len(cleaned) <= 300 or "|" in cleaned:
            continue
        for pattern, ask in _PATTERNS:
            match = pattern.match(cleaned)
            if match is not None:
                if not _VAGUE.search(match.groupdict().get("subject") or ""):
                    yield Starter(ask(match), cleaned)
                break


def list_topics(paths: Iterable[Sequence[str]], *, limit: int = 12) -> list[str]:
    """List the headings that most say what a collection is about: frequent, short, and own."""
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for path in paths:
        for depth, heading in enumerate(path):
            name = _NUMBERING.sub("", " ".join(heading.split())).strip(" :.#*")
            words = name.split()
            if not _is_topic(name, words):
                continue
            key = name.casefold()
            spelled.setdefault(
                key, name.capitalize() if name.isupper() and len(name) > _MAX_ACRONYM else name
            )
            # The title of a document names a topic; a heading deep inside rarely does.
            counts[key] += 3 if depth == 0 else 2 if depth == 1 else 1
    return [spelled[key] for key, _ in counts.most_common(limit)]


def _is_topic(name: str, words: Sequence[str]) -> bool:
    return (
        0 < len(words) <= _MAX_TOPIC_WORDS
        and 3 <= len(name) <= 60
        and "|" not in name
        and not name.endswith("?")
        and any(char.isalpha() for char in name)
        and not {word.casefold() for word in words} <= _GENERIC
    )
