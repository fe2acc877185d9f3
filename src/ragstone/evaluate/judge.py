"""What a language model thinks of an answer: optional, and never a reason for a gap in the figures.

A reply that cannot be read leaves the measure out for that question; the summary says for how many
questions it is there.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from ragstone.errors import ProviderError
from ragstone.evaluate.datasets import Question
from ragstone.prompts import render
from ragstone.query.understand.rewrite import ask_json
from ragstone.stages import Chat


class Judgement(BaseModel):
    faithfulness: float = Field(ge=0, le=10)
    relevance: float = Field(ge=0, le=10)


async def judged(chat: Chat, question: Question, answer: str) -> dict[str, float]:
    """Faithfulness to the reference and relevance to the question, each from 0 to 1."""
    reference = "\n".join(question.answers) or "(none is known)"
    prompt = render("judge", question=question.text, reference=reference, answer=answer)
    try:
        found = Judgement.model_validate(await ask_json(chat, prompt, Judgement))
    except ProviderError:
        return {}
    return {
        "judged_faithfulness": found.faithfulness / 10,
        "judged_relevance": found.relevance / 10,
    }
