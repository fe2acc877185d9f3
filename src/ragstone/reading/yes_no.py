"""Answer a yes/no question from one passage, when the verifier is sure.

question → the statement it asks about → supported or contradicted by the passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstone.index.analyze import extract_terms
from ragstone.reading.model import ReadingModel

YesNo: TypeAlias = Literal["Yes", "No", ""]

_START = re.compile(
    r"^(?:(?:so|and|but)\s+)?(?:(?P<condition>if\s[^,]+),\s+)?"
    r"(?P<verb>is|are|was|were|do|does|did|can|could|may|might|must|should|has|have|had|will|would)"
    r"\s+(?P<rest>.+?)\s*[?.!]*$",
    re.IGNORECASE,
)
_DETERMINER = re.compile(
    r"^(?:an?|the|my|your|our|its|this|that|these|those|all|every|each|any|some|no)$", re.IGNORECASE
)
_NEVER_SAID = {"do", "does", "did"}
# The mean over the ways to say it; fitted on the development half of bench/packs/answers.jsonl.
SURE = 0.8
_UNDECIDED = 0.4
_UNDECIDED_FACTOR = 0.6
_PLAUSIBLE = 0.12
_SURE_PROBABILITY = 0.45
_MAX_WAYS = 3
# Words of a question that say no more than its verb: "Are dogs allowed?", "Dogs may come in."
_LIGHT = frozenset(
    extract_terms(
        "allowed permitted possible required needed necessary mandatory able ok okay there"
    )
)
_OPPOSITE = ("un", "non")
_TIME = re.compile(
    r"\b(?:\d[\d.,:]*|(?:jan|febr)uary|march|april|may(?=\s+\d|\?|$)|june|july|august"
    r"|(?:septem|octo|novem|decem)ber|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|spring|summer|autumn|winter|weekends?|christmas|easter)\b",
    re.IGNORECASE,
)


def list_statements(question: str) -> list[str]:
    """Turn a yes/no question into statements: the verb moves behind its subject.

    Where the subject ends is not known, so there may be several.
    """
    match = _START.match(" ".join(question.split()))
    if match is None:
        return []
    words = match["rest"].split()
    if len(words) < 2:
        return []
    end = f", {match['condition'].lower()}." if match["condition"] else "."
    if match["verb"].lower() in _NEVER_SAID:
        return [_write_sentence(words, end)]
    return [
        _write_sentence([*words[:place], match["verb"].lower(), *words[place:]], end)
        for place in _list_places(words)
    ]


def _list_places(words: list[str]) -> Iterator[int]:
    first = 2 if _DETERMINER.match(words[0]) else 1
    last = min(len(words), first + _MAX_WAYS)
    yield from range(first, max(last, first + 1))


def _write_sentence(words: list[str], end: str) -> str:
    text = " ".join(words)
    return text[:1].upper() + text[1:] + end


def is_about(question: str, evidence: str) -> bool:
    """Return True when the evidence names everything that the question asks about.

    The verifier takes a sentence about the brioche for one about the sourdough: both are bread.
    Nor does it count months: "closed from October to April" does not decide about November.
    """
    held = set(extract_terms(evidence))
    missing = set(extract_terms(question)) - held - _LIGHT
    if any(not _has_opposite(one, held) for one in missing):
        return False
    return {one.lower() for one in _TIME.findall(question)} <= {
        one.lower() for one in _TIME.findall(evidence)
    }


def _has_opposite(term: str, held: set[str]) -> bool:
    """Return True for "encrypted" where the evidence says "unencrypted", and the reverse."""
    return any(f"{start}{term}" in held or term == f"{start}{one}"
               for start in _OPPOSITE for one in held)  # fmt: skip


@dataclass(frozen=True, slots=True)
class YesNoJudgement:
    """Hold how far a passage decides a yes/no question."""

    said: YesNo
    certainty: float
    """The verifier's probability of the likelier of yes and no; a mean over the ways to say it."""

    def adjust(self, probability: float) -> float:
        """Return the probability that the passage answers, now that the verifier has read it too.

        On the development questions every passage that answers has a certainty above 0.5, and every
        one that does not is below 0.4.
        """
        if self.certainty < _UNDECIDED:
            return probability * _UNDECIDED_FACTOR
        if self.said and probability >= _PLAUSIBLE:
            return max(probability, _SURE_PROBABILITY)
        return probability


def judge_yes_no(question: str, evidence: str, model: ReadingModel) -> YesNoJudgement | None:
    """Judge whether the evidence supports or contradicts the statement that a question asks about.

    None where the question cannot be turned into a statement.
    """
    statements = list_statements(question)
    if not statements:
        return None
    judged = model.verify([(one, evidence) for one in statements])
    yes = sum(one.supported for one in judged) / len(judged)
    no = sum(one.contradicted for one in judged) / len(judged)
    said: YesNo = ""
    if max(yes, no) >= SURE and is_about(question, evidence):
        said = "Yes" if yes > no else "No"
    return YesNoJudgement(said, max(yes, no))
