"""Answer a yes/no question from one passage, when the verifier is sure.

question → the statement it asks about → supported or contradicted by the passage.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from ragstone.reading.model import ReadingModel

YesNo: TypeAlias = Literal["Yes", "No", ""]

_START = re.compile(
    r"(?:if (?P<condition>[^,?]+), )?(?P<verb>is|are|was|were|do|does|did|can|could|may|might|must|"
    r"should|has|have|had|will|would) (?P<rest>.+?)[ ?.!]*",
    re.IGNORECASE,
)
_NEVER_SAID = ("do", "does", "did")
# Where the subject ends is not known: the verb is tried behind its first words.
_PLACES = (1, 2, 3)
# The mean over the ways to say it.
SURE = 0.8


def list_statements(question: str) -> list[str]:
    """Turn a yes/no question into statements: the verb moves behind its subject."""
    match = _START.fullmatch(" ".join(question.split()))
    words = match["rest"].split() if match else []
    if match is None or len(words) < 2:
        return []
    verb = match["verb"].lower()
    end = f", if {match['condition']}." if match["condition"] else "."
    if verb in _NEVER_SAID:
        return [_write(words, end)]
    return [_write([*words[:at], verb, *words[at:]], end) for at in _PLACES if at < len(words)]


def _write(words: list[str], end: str) -> str:
    text = " ".join(words)
    return f"{text[0].upper()}{text[1:]}{end}"


def judge_yes_no(question: str, evidence: str, model: ReadingModel) -> YesNo:
    """Say whether the evidence supports or contradicts what a question asks; "" if unsure."""
    statements = list_statements(question)
    if not statements:
        return ""
    judged = model.verify([(statement, evidence) for statement in statements])
    yes = sum(scores.supported for scores in judged) / len(judged)
    no = sum(scores.contradicted for scores in judged) / len(judged)
    return "" if max(yes, no) < SURE else "Yes" if yes > no else "No"
