"""The three-layer intent router: hard rules, exemplars, and a model for what is still ambiguous."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.query.script import knows_script
from ragstone.query.understand.exemplars import Exemplars
from ragstone.query.understand.rewrite import judge_intent
from ragstone.query.understand.rules import hard_rule
from ragstone.stages import Chat, Embedder
from ragstone.types import Intent

# A near-verbatim exemplar of another kind of request ("summarize the document").
_NEAR_VERBATIM = 0.8


@dataclass(frozen=True, slots=True)
class Detected:
    """What a text wants, how sure that is, and which layer said so."""

    intent: Intent
    confidence: float
    layer: int


def detect_without_model(
    text: str, embedder: Embedder, exemplars: Exemplars, *, threshold: float
) -> tuple[Detected, bool]:
    """Layers 0 and 1, and whether the verdict is too unsure to stand without a model's word."""
    if (said := hard_rule(text)) is not None:
        return Detected(said, 1.0, 0), False
    if not knows_script(embedder, text):
        return Detected("question", 0.5, 1), True
    near = exemplars.nearest(text, embedder.embed([text])[0])
    if near.small_talk >= threshold:
        return Detected(near.talk, near.small_talk, 1), False
    if near.other != "question" and near.other_similarity >= _NEAR_VERBATIM:
        return Detected(near.other, min(1.0, near.other_similarity), 1), False
    return Detected("question", 1 - near.small_talk, 1), near.small_talk > 1 - threshold


async def detect_with_model(chat: Chat, text: str) -> Detected:
    """Layer 2."""
    judged = await judge_intent(chat, text)
    return Detected(judged.intent, judged.confidence, 2)
