"""One number from 0 to 1 for an answer: how probable it is that it is right.

How probable it is that the sources hold the answer (the sentence chooser's word, calibrated by
Platt's method on one half of the question sets; `bench/fit_confidence.py` writes the two constants
and `bench/grounding.py` prints the reliability on the other half), times how far they carry it.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from ragstone.models.cache import remembered
from ragstone.plugins import PartContext
from ragstone.protocols import Chat, Embedder
from ragstone.query.check.review import GROUNDED, Review, groundedness, in_doubt, verified
from ragstone.query.check.review import review as review_text
from ragstone.query.evidence import Checked, Draft, Evidence
from ragstone.query.fallback import MODEL_FAILED, Fallbacks
from ragstone.query.ground.cite import Notation, code_spans, short_answers, statements
from ragstone.query.ground.generate import is_refusal
from ragstone.trace import QueryRun
from ragstone.types import NO_ANSWER, Claim, Query


@cache
def _constants() -> tuple[float, float]:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table = tomllib.loads(text)["confidence"]
    return float(table["slope"]), float(table["offset"])


def calibrated(probability: float) -> float:
    """The sentence chooser's probability as a share of right answers."""
    slope, offset = _constants()
    bounded = min(max(probability, 1e-6), 1 - 1e-6)
    return 1 / (1 + math.exp(-(slope * math.log(bounded / (1 - bounded)) + offset)))


def confidence(probability: float, grounded: float) -> float:
    return round(calibrated(probability) * min(max(grounded, 0.0), 1.0), 4)


@dataclass(frozen=True, slots=True)
class ClaimChecker:
    """Check a draft against its sources. `chat` is asked only about what is in doubt."""

    embedder: Embedder
    chat: Chat | None
    fallbacks: Fallbacks
    verify_timeout_s: float = 30.0

    async def check(self, query: Query, evidence: Evidence, draft: Draft, run: QueryRun) -> Checked:
        """Tell refusals from answers, judge each claim, and put the figures together."""
        if query.mode == "plain":
            return Checked(draft.text)
        text = draft.text.strip()
        if is_refusal(text):
            return Checked(NO_ANSWER, "abstained")
        notation = Notation(evidence.sources, query.citation_style)
        review = await self._review(text, notation, run)
        score = groundedness(review.claims)
        return Checked(
            review.text,
            citations=review.citations,
            claims=review.claims,
            is_grounded=score > GROUNDED,
            groundedness_score=round(score, 4),
            confidence=confidence(evidence.probability, score),
            citation_precision=round(review.precision, 4),
            citation_recall=round(review.recall, 4),
            highlights=tuple(short_answers(query.text, review.said, review.text)),
        )

    async def _review(self, text: str, notation: Notation, run: QueryRun) -> Review:
        with run.span("check.ground") as span:
            checked = await span.run_in_background(review_text, text, notation, self.embedder)
            span.count(
                claims=len(checked.claims),
                citations=len(checked.citations),
                attributed=checked.attributed,
                repaired=checked.repaired,
                groundedness_score=round(groundedness(checked.claims), 4),
            )
        doubtful = in_doubt(checked.claims)
        # A model that has just failed is not asked again.
        if not doubtful or self.chat is None or MODEL_FAILED & set(run.degraded):
            return checked
        with run.span("check.verify") as span:
            span.count(claims=len(doubtful))
            try:
                checked = await verified(
                    self.chat, checked, notation.sources, timeout_s=self.verify_timeout_s
                )
            except Exception as error:  # noqa: BLE001  whatever a provider raises, the check stands
                self.fallbacks.use("without_llm_steps", run, span, error)
            span.count(groundedness_score=round(groundedness(checked.claims), 4))
        return checked


def build(context: PartContext) -> ClaimChecker:
    return ClaimChecker(
        remembered(context.reads_with),
        context.chat,
        context.fallbacks,
        context.settings.provider.timeout_s,
    )


_WITHHELD = frozenset({"unsupported", "contradicted"})


@dataclass(slots=True)
class SentenceHold:
    """Collects text until a sentence and its markers are complete."""

    notation: Notation
    embedder: Embedder | None
    withheld: list[str] = field(default_factory=list)
    released: str = ""
    _waiting: str = ""

    def feed(self, piece: str) -> str:
        """What may go out now. The last sentence waits: its marker may still be on its way."""
        self._waiting += piece
        said = statements(self._waiting, self.notation)
        if len(said) < 2:
            return ""
        # A fence that is still open may swallow what looks like the next sentence.
        end = said[-1].start
        if any(start < end < stop for start, stop in code_spans(self._waiting)):
            return ""
        ready, self._waiting = self._waiting[:end], self._waiting[end:]
        return self._released(ready)

    def close(self) -> str:
        """The rest; where nothing could go out at all, that there is no answer."""
        ready, self._waiting = self._waiting, ""
        rest = self._released(ready)
        if not self.released.strip():
            self.released = rest = NO_ANSWER
        return rest

    def _released(self, text: str) -> str:
        """The sentences of a text that a source supports, and what is no claim."""
        out: list[str] = []
        position = 0
        for statement in statements(text, self.notation):
            part = text[position : statement.reach]
            position = statement.reach
            out.append(self._checked(part))
        out.append(text[position:])
        ready = "".join(out)
        ready = ready if self.released else ready.lstrip()
        self.released += ready
        return ready

    def _checked(self, part: str) -> str:
        if NO_ANSWER in part:
            return part
        seen = review_text(part, self.notation, self.embedder)
        if any(_doubtful(claim) for claim in seen.claims):
            self.withheld.append(part.strip())
            return ""
        after = part[len(part.rstrip()) :]
        return seen.text + after


def _doubtful(claim: Claim) -> bool:
    """Nothing supports it, or it says a number, a date or a name that its source does not."""
    return claim.verdict in _WITHHELD or (claim.verdict == "partial" and bool(claim.reasons))
