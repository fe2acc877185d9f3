"""Find claims that join the subject of one clause with what another clause says.

claim and sentences → whether the claim mixes clauses that contradict it one by one. The verifier
reads "Ada audits Kiln and Ben audits Forge" as support for "Ben audits Kiln"; alone, neither clause
is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.query.check.verifier import Verifier, WorkLimit

_JOINT = re.compile(r";\s+|,?\s+(?:and|but|while|whereas)\s+", re.IGNORECASE)
_WORD = re.compile(r"[\w'’-]+")
_MIN_TERMS = 2
_MAX_CLAUSES = 6
# A subject has no more words than this before its verb.
_SUBJECT_WORDS = 4
_MIN_PAST_CHARS = 5
_DETERMINERS = frozenset(
    """
    the a an this that these those its his her their our every each no all some any both
    """.split()  # noqa: SIM905  a list of words reads better as text
)
_AUXILIARIES = frozenset(
    """
    is are was were has have had do does did can could may might must shall should will would cannot
    """.split()  # noqa: SIM905  a list of words reads better as text
)
_PAST_FORMS = frozenset(
    """
    ate became began bought broke brought built came chose cost cut drank drew drove fell flew
    fought found gave got grew held hit kept knew laid lay led left lent lost made met paid put
    ran rang read rose said sang sat saw sent set shot shut slept sold spent spoke stole stood
    swam taught thought threw told took went won wore wrote
    """.split()  # noqa: SIM905  a list of words reads better as text
)
# A clause that begins like this has a subject that stands elsewhere, or none.
_NO_SUBJECTS = _AUXILIARIES | frozenset(
    """
    it its they their he his she her this that these those there one ones two three another other
    others former latter both so then never now not only also later more less
    fewer
    """.split()  # noqa: SIM905  a list of words reads better as text
)
_COMPARED = frozenset({"better", "more", "less", "fewer", "worse", "than"})


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold a part of a text that has a subject and a verb of its own."""

    text: str
    subject: frozenset[str]
    """The terms before its verb."""
    rest: frozenset[str]

    @property
    def terms(self) -> frozenset[str]:
        return self.subject | self.rest


def is_mixture(claim: str, sentences: Sequence[str], verifier: Verifier, limit: WorkLimit) -> bool:
    """Return True when a claim mixes clauses of which none alone supports it.

    Each of the mixed ones must contradict it, and no other may support it. No bar is fitted: the
    most probable of the three readings counts.
    """
    clauses = split_clauses(tuple(sentences))
    mixed = find_mixed_clauses(claim, clauses)
    if not mixed:
        return False
    others = [one for one in clauses if one not in mixed]
    read = verifier.verify([(claim, one.text) for one in (*mixed, *others)], limit)
    return all(one is not None and one.is_contradiction for one in read[: len(mixed)]) and not any(
        one is None or one.is_support for one in read[len(mixed) :]
    )


def find_mixed_clauses(claim: str, clauses: Sequence[Clause]) -> list[Clause]:
    """Return the clauses that a claim mixes.

    It names the subject of one and something of another, but not the subject of that one. A claim
    about both subjects is left to the verifier.
    """
    terms = frozenset(_extract(claim))
    for one in clauses:
        for other in clauses:
            if (
                terms & (one.subject - other.terms)
                and terms & (other.rest - one.terms)
                and not terms & (other.subject - one.subject)
            ):
                return [one, other]
    return []


def _extract(text: str) -> list[str]:
    """Return the English terms: single names look like words of other languages ("Ben", "Ada")."""
    return extract_terms(text, "english")


@lru_cache(maxsize=2048)
def split_clauses(sentences: tuple[str, ...]) -> tuple[Clause, ...]:
    """Split sentences into clauses; one without a subject of its own stays with the one before."""
    texts: list[str] = []
    for sentence in sentences:
        parts = _split_sentence(sentence)
        if texts and not _can_stand_alone(parts[0], texts[-1]):
            texts[-1] = f"{texts[-1]} {parts.pop(0)}"
        texts += parts
    if not 1 < len(texts) <= _MAX_CLAUSES:
        return ()
    return tuple(
        _build_clause(text, texts[at - 1] if at else texts[1]) for at, text in enumerate(texts)
    )


def _split_sentence(sentence: str) -> list[str]:
    """Split a sentence where clauses are joined that both have a subject and a verb."""
    joints = list(_JOINT.finditer(sentence))
    ends = [*(joint.start() for joint in joints[1:]), len(sentence)]
    begin = 0
    texts: list[str] = []
    for joint, end in zip(joints, ends, strict=False):
        before, after = sentence[begin : joint.start()], sentence[joint.end() : end]
        if _can_stand_alone(before, after) and _can_stand_alone(after, before):
            texts.append(before)
            begin = joint.end()
    texts.append(sentence[begin:])
    return [f"{text[:1].upper()}{text[1:].rstrip(' .;,')}." for text in texts]


def _can_stand_alone(clause: str, other: str) -> bool:
    words = _WORD.findall(clause)
    if not words or words[0][0].isdigit() or words[0].casefold() in _NO_SUBJECTS:
        return False
    verb = _find_verb(words, other)
    return (
        verb > 0 and len(_extract(clause)) >= _MIN_TERMS and bool(_extract(" ".join(words[:verb])))
    )


def _build_clause(text: str, other: str) -> Clause:
    words = _WORD.findall(text)
    verb = _find_verb(words, other)
    subject = frozenset(_extract(" ".join(words[:verb])))
    return Clause(text, subject, frozenset(_extract(text)) - subject)


def _find_verb(words: Sequence[str], other: str) -> int:
    """Return the place of the first word that looks like a verb; 0 if there is none.

    A word that both clauses have is one ("pay 16 euros, but children pay 8"), and a word on -s
    before the beginning of an object ("treats the adults").
    """
    shared = frozenset(_extract(other))
    for at in range(1, min(len(words), _SUBJECT_WORDS + 1)):
        before, word = words[at - 1], words[at].casefold()
        following = words[at + 1] if at + 1 < len(words) else ""
        if word in _AUXILIARIES or word in _PAST_FORMS:
            return at
        # A capital is a determiner's only where it begins the clause: "Plan A includes".
        if (before.casefold() if at == 1 else before) in _DETERMINERS:
            continue
        if before[0].isdigit() or word in STOP_WORDS:
            continue
        if word.endswith("ed") and len(word) >= _MIN_PAST_CHARS:
            return at
        begins_object = following.casefold() in _DETERMINERS or following[:1].isupper()
        if word.endswith("s") and not word.endswith("ss") and begins_object:
            return at
        is_shared = word not in _COMPARED and shared.issuperset(_extract(word))
        if following and words[at].islower() and is_shared:
            return at
    return 0
