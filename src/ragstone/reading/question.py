"""Tell what a question asks for: a fact, a definition, steps, a difference, several things.

question → `Question`: its kind, the parts that are answered one by one, and whether the newest of
several dated statements is wanted. The rules look at the form of a question, never at its subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

QuestionKind: TypeAlias = Literal[
    "fact", "definition", "how_to", "list", "difference", "yes_no", "why", "other"
]


@dataclass(frozen=True, slots=True)
class Question:
    """Hold a question and what it asks for."""

    text: str
    kind: QuestionKind
    parts: tuple[str, ...] = ()
    """Questions to answer one by one; empty for a question that asks one thing."""
    subject: str = ""
    """What is to be defined."""
    wants_latest: bool = False
    core: str = ""
    """The question without words about the documents ("What do the docs say about …")."""

    @property
    def wants_short_answer(self) -> bool:
        """Return True when a name, a date or a number is an answer."""
        return self.kind == "fact"

    @property
    def wants_whole_list(self) -> bool:
        return self.kind in ("list", "how_to")


_ASK = (
    r"(?:what|who|whom|whose|when|where|why|how|which|is|are|was|were|do|does|did|can|could|should|"
    r"will|would|has|have|must|may)"
)
# "…, and who wrote it?" asks twice.
_SECOND = re.compile(
    rf"(?:\?+\s+(?=\S)|;\s+|,?\s+and\s+(?:also\s+)?(?={_ASK}\b)|,\s+(?={_ASK}\b(?!\s+is\b,)))",
    re.IGNORECASE,
)
_DIFFERENCE = (
    re.compile(
        r"\b(?:difference|differences|distinction|comparison)s?\s+(?:is\s+)?between\s+(?P<a>.+?)"
        r"\s+(?:and|&|vs\.?|versus)\s+(?P<b>.+?)\s*[?.!]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:how|in what way)\s+(?:do|does|is|are)\s+(?P<a>.+?)\s+(?:differ|different)\s+from\s+"
        r"(?P<b>.+?)\s*[?.!]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:compare|contrast)\s+(?P<a>.+?)\s+(?:and|with|to|against|vs\.?|versus)\s+"
        r"(?P<b>.+?)\s*[?.!]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:[\w-]+:?\s+)?(?P<a>[\w'/-]+(?:\s[\w'/-]+)?)\s+or\s+(?P<b>[\w'/-]+(?:\s[\w'/-]+){0,2})"
        r"\s*(?:[-–—:,]\s*)?(?:what(?:'s|’s|s| is) the difference|difference)\s*[?.!]*$",
        re.IGNORECASE,
    ),
    # "concurrencyPolicy: Forbid or Replace?", which asks without a verb.
    re.compile(
        rf"^(?!{_ASK}\b)(?:[\w .'/-]{{2,60}}:\s+)(?P<a>[\w'/-]+)\s+or\s+(?P<b>[\w'/-]+)\s*\?$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:how\s+do(?:es)?\s+)(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+(?:compare|differ)\s*[?.!]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:(?:what is|what's|which is) (?:the )?)?(?P<a>[\w .'/-]{2,60}?)\s+(?:vs\.?|versus)\s+"
        r"(?P<b>[\w .'/-]{2,60}?)(?:\s+(?:difference|comparison))?\s*[?.!]*$",
        re.IGNORECASE,
    ),
)
_DEFINITION = (
    re.compile(
        r"^(?:what(?:'s|’s|s| is| are| was)|who(?:'s|’s| is| are| was)|define|describe|explain"
        r"|(?:the )?(?:definition|meaning) of|what(?:'s|’s| is) meant by)\s+"
        r"(?:(?:an?|the)\s+)?(?P<x>[\w .'/&+-]{2,60}?)\s*[?.!]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^what\s+(?:does|do)\s+(?:(?:an?|the)\s+)?(?P<x>[\w .'/&+-]{2,60}?)\s+(?:mean|stand for)"
        r"\s*[?.!]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?P<x>[\w .'/&+-]{2,60}?)\s+(?:meaning|definition|explained)\s*[?.!]*$", re.IGNORECASE
    ),
)
# "What is the maximum size of X" asks for a value, not for a definition.
_OF_SOMETHING = re.compile(
    r"\b(?:of|for|in|on|at|to|by|from|with|between|per|when|if|used|called|named)\b", re.IGNORECASE
)
_MAX_SUBJECT_WORDS = 5

_FORMS: tuple[tuple[QuestionKind, str], ...] = (
    (
        "how_to",
        r"(?:^|[,.:;] )(?:so |and )?how\s+(?:do|does|can|could|should|would|to)\b"
        r"|\b(?:how to|steps (?:to|for)|(?:what|which) (?:command|steps?)|command (?:to|for)"
        r"|(?:the )?(?:best |right )?way to|instructions (?:for|to))\b|^(?:show|tell) me how\b"
        r"|^(?:wie (?:kann|muss|soll|mache?|richte)\b)|^(?:comment|cómo|come|como|hoe)\b"
        r"|^(?:please )?(?:add|build|change|check|clean|configure|connect|copy|create|debug|delete|"
        r"deploy|disable|download|enable|encrypt|export|find out|get|import|increase|install|limit|"
        r"make|migrate|mount|move|open|print|reduce|remove|rename|replace|reset|restart|restore|"
        r"resize|roll(?: |-)?back|run|scale|send|set(?: up)?|start|stop|switch|turn|uninstall|"
        r"update|upgrade|upload|use|view|write) (?!of\b)\w",
    ),
    (
        "list",
        r"^(?:list|name|enumerate|give me|show)\b(?! me how)"
        r"|^what\s+(?:are|were)\s+(?:(?:all|some|the|typical|possible|different)\s+)+"
        r"|^(?:what|which)\s+(?:\w+\s+){0,2}(?:kinds?|types?|sorts?|options?|reasons?|ways?|"
        r"methods?|features?|things?|tools?|fields?|values?|parts?|phases?|states?|conditions?)\b"
        r"|^which\s+\w+s\s+(?:are|were|do|can|have)\b",
    ),
    ("why", r"^(?:so |and |but )?why\b|\bfor what reason\b|^what (?:caused?|is the reason)\b"
            r"|^(?:warum|weshalb|wieso|pourquoi|por qué|perché|waarom|почему)\b"),
    (
        "fact",
        r"\b(?:who|whom|whose|when|where)\b|\bhow\s+(?:many|much|long|old|far|tall|high|deep|heavy|"
        r"large|big|fast|wide|often|soon|late|early|strong|hot|cold|small|short|thick|frequently)\b"
        r"|\b(?:what|which)\b|\b(?:default|maximum|minimum|max|min|limit|number|price|date|version"
        r"|port|size|rate|fee|cost|address|name)\b"
        r"|\b(?:wer|wann|wo|wie ?viele?|welche\w*|quand|où|combien|qui|quién|cuándo|dónde|cuánt\w+"
        r"|chi|quando|dove|quant\w+|wie|wanneer|waar|кто|когда|где|сколько)\b|[谁何哪几]|多少|什么",
    ),
    ("yes_no", r"^(?:(?:so|and)\s|if\s[^,]+,\s)?(?:is|are|was|were|do|does|did|can|could|may|"
               r"might|must|should|has|"
               r"have|had|will|would|am)\b"),
)  # fmt: skip
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _FORMS)
_YES_NO = _KINDS[-1][1]
_LATEST = re.compile(
    r"\b(?:latest|newest|current(?:ly)?|today|nowadays|now|most recent(?:ly)?|at present|still|"
    r"up[- ]to[- ]date|aktuell\w*|derzeit\w*|heute|actuel\w*|actual\w*)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def parse_question(text: str) -> Question:
    """Tell the kind of a question, and cut it into parts where it asks several things."""
    plain = " ".join(text.split())
    core = remove_talk_of_documents(plain)
    latest = bool(_LATEST.search(plain))
    if pair := _match_difference(plain):
        # A sentence that names both comes first, if there is one.
        parts = (plain, *(f"What is {one}?" for one in pair))
        return Question(plain, "difference", parts, wants_latest=latest, core=core)
    parts = split_parts(plain)
    if len(parts) > 1:
        kind = parse_question(parts[0]).kind
        return Question(plain, kind, parts, wants_latest=latest, core=core)
    if subject := _match_definition(plain):
        return Question(plain, "definition", subject=subject, wants_latest=latest, core=core)
    if _YES_NO.match(plain):
        return Question(plain, "yes_no", wants_latest=latest, core=core)
    return Question(plain, _find_kind(plain), wants_latest=latest, core=core)


_DOCUMENTS = (
    r"(?:the|these|those|my|our|your) (?:docs?|documents?|documentation|files|sources|texts?)"
)
_TALK = (
    re.compile(
        rf"^(?:what (?:exactly )?(?:do|does|did) (?:{_DOCUMENTS}|(?:the|our|my) [\w-]+) "
        r"(?:exactly )?(?:say|state|mention|write|tell us) (?:about|on|regarding)\s+)",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:please )?(?:find|quote|show|give|cite)(?: me)? the "
        r"(?:(?:exact|whole|full) )?(?:sentence|passage|paragraph|clause|quote|wording|line)s?"
        r"(?: (?:that|which) (?:says?|states?|tells?|explains?)| (?:about|on|where|with|for))\s+",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\s*,?\s*(?:(?:do|does|according to|in|from|by) )?{_DOCUMENTS}"
        r"(?: (?:say|says|describe|describes|mention|mentions|state|states|cover))?\b",
        re.IGNORECASE,
    ),
    re.compile(r"\s*,?\s*(?:word for word|verbatim|literally)\b", re.IGNORECASE),
)


def remove_talk_of_documents(text: str) -> str:
    """Return a question without what it says of the documents: that is not in them."""
    core = text
    for pattern in _TALK:
        core = pattern.sub("", core)
    return core.strip(" ,") if len(core.split()) > 1 else text


def _find_kind(text: str) -> QuestionKind:
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    return "other"


def split_parts(text: str) -> tuple[str, ...]:
    """Cut a text where a second question begins; a part too short to stand alone is not cut off."""
    pieces = [piece.strip(" ,;") for piece in _SECOND.split(text) if piece.strip(" ,;?")]
    if len(pieces) < 2 or any(len(piece.split()) < 2 for piece in pieces):
        return ()
    if not re.match(rf"{_ASK}\b", pieces[0], re.IGNORECASE):
        return ()
    first, *later = [piece if piece.endswith("?") else f"{piece}?" for piece in pieces[:4]]
    return (first, *(_carry_subject(first, piece) for piece in later))


def _carry_subject(first: str, later: str) -> str:
    """Add the names of the first part to a later one that only points back ("when does it …")."""
    if not _POINTS_BACK.search(later):
        return later
    words = [w for w in re.findall(r"[\w'/.-]+", first)[1:] if w.casefold() not in _FORM_WORDS]
    return f"{later} ({' '.join(words)})" if words else later


_POINTS_BACK = re.compile(r"\b(?:it|its|they|them|their|he|she|his|her|that|this)\b", re.IGNORECASE)
_FORM_WORDS = frozenset(
    """
    is are was were do does did can could should will would has have had must may the a an of in on
    at to for by from with how many much when where who which what why there i you we my your our
    it its they them their he she his her this that
    """.split()  # noqa: SIM905  a list of words reads better as text
)


def _match_difference(text: str) -> tuple[str, str] | None:
    for pattern in _DIFFERENCE:
        if match := pattern.search(text):
            first, second = (_strip_article(match[name]) for name in ("a", "b"))
            if all(0 < len(one.split()) <= _MAX_SUBJECT_WORDS + 2 for one in (first, second)):
                return _complete_first(first, second), second
    return None


def _complete_first(first: str, second: str) -> str:
    """Return the first of two things with the noun that only the second one has.

    "the early and the late shift" speaks of the early shift; "pods and replica sets" does not.
    """
    _, *noun = second.split()
    is_adjective = " " not in first and first.islower() and not first.endswith("s")
    return f"{first} {' '.join(noun)}" if noun and is_adjective else first


def _match_definition(text: str) -> str:
    for pattern in _DEFINITION:
        match = pattern.match(text)
        if match and len(match["x"].split()) <= _MAX_SUBJECT_WORDS:
            subject = _strip_article(match["x"])
            if subject and not _OF_SOMETHING.search(subject) and not _LATEST.search(subject):
                return subject
    return ""


def _strip_article(text: str) -> str:
    return re.sub(r"^(?:an?|the)\s+", "", text.strip(" ,;\"'“”?"), flags=re.IGNORECASE)
