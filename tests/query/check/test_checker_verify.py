"""The small model decides only what the fast check leaves open, in one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ragstone.errors import ProviderError, UnusableReplyError
from ragstone.query.check.checker import MAX_CLAIMS, find_doubtful_claims, verify_with_model
from ragstone.query.check.review import Review, review_text
from ragstone.query.ground.cite import Notation
from ragstone.types import Citation, Claim, Message

from ...patience import LONG_S
from ..build import sources

SOURCES = sources("The dome closes in strong wind.", "Soup is sold on weekdays.")


class Judge:
    """Says what it was told to, and remembers what it was asked."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.prompts: list[str] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        self.prompts.append(messages[-1].content)
        return self.reply


def claim(score: float, text: str = "The roof shuts when it blows.") -> Claim:
    return Claim(text, 0, len(text), (1,), "partial", score)


def reviewed(*scores: float) -> Review:
    citation = Citation(1, "doc", "doc.txt", None, "doc:1", 0, 5, "The d", 1.0, "partial")
    claims = tuple(claim(score) for score in scores)
    return Review("…", claims, (citation,) * len(scores), (), tuple(range(len(scores))))


def verdicts(*words: str) -> str:
    rows = [{"claim": n, "supported": word} for n, word in enumerate(words, start=1)]
    return json.dumps({"verdicts": rows})


@pytest.mark.parametrize("score", [0.0, 0.29, 0.81, 1.0])
async def test_what_is_clear_is_not_asked(score: float) -> None:
    judge = Judge(verdicts("no"))
    review = reviewed(score)
    assert await verify_with_model(judge, review, SOURCES, timeout_s=LONG_S) == review
    assert judge.prompts == []


async def test_one_call_decides_every_doubtful_claim() -> None:
    judge = Judge(verdicts("yes", "no", "partly"))
    result = await verify_with_model(judge, reviewed(0.5, 0.5, 0.5), SOURCES, timeout_s=LONG_S)
    assert [one.verdict for one in result.claims] == ["supported", "unsupported", "partial"]
    assert [one.score for one in result.claims] == [0.9, 0.2, 0.5]
    assert [one.verdict for one in result.citations] == ["supported", "unsupported", "partial"]
    assert len(judge.prompts) == 1
    assert "The dome closes in strong wind." in judge.prompts[0]


async def test_verdicts_on_claims_that_do_not_exist_change_nothing() -> None:
    rows = [{"claim": 0, "supported": "no"}, {"claim": 9, "supported": "no"}]
    judge = Judge(json.dumps({"verdicts": rows}))
    assert await verify_with_model(judge, reviewed(0.5), SOURCES, timeout_s=LONG_S) == reviewed(0.5)


@pytest.mark.parametrize("reply", ["", "I think so.", '{"verdicts": "yes"}', "[1, 2"])
async def test_a_reply_that_cannot_be_read_is_a_failure(reply: str) -> None:
    with pytest.raises(UnusableReplyError):
        await verify_with_model(Judge(reply), reviewed(0.5), SOURCES, timeout_s=LONG_S)
    assert issubclass(UnusableReplyError, ProviderError)


def test_the_number_of_claims_asked_about_is_bounded() -> None:
    assert len(find_doubtful_claims([claim(0.5)] * 50)) == MAX_CLAIMS


OTHER_LANGUAGES = {
    "de": "Die Kuppel wird bei starkem Wind geschlossen.",
    "fr": "La coupole se ferme par vent fort.",
    "es": "La cúpula se cierra cuando el viento es fuerte.",
    "zh": "大风时圆顶关闭。",
}


@pytest.mark.parametrize("said", OTHER_LANGUAGES.values(), ids=OTHER_LANGUAGES)
@pytest.mark.parametrize("word", ["yes", "partly", "no"])
async def test_a_model_decides_about_claims_in_another_language(said: str, word: str) -> None:
    review = review_text(f"{said} [Source 1]", Notation(SOURCES))
    assert [one.verdict for one in review.claims] == ["unchecked"]
    judge = Judge(verdicts(word))
    result = await verify_with_model(judge, review, SOURCES, timeout_s=LONG_S)
    expected = {"yes": "supported", "partly": "partial", "no": "unsupported"}[word]
    assert [one.verdict for one in result.claims] == [expected]
    assert [one.verdict for one in result.citations] == [expected]
    assert said.rstrip(".。") in judge.prompts[0]
