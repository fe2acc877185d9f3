"""What every moderator must do: subclass, say how to make one and what it refuses, run with pytest.

class TestMine(ModeratorConformance):
    refused = "My card is 4111 1111 1111 1111."

    @pytest.fixture
    def moderator(self): return MyModerator()
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from ragstone.stages import Moderated, Moderator

KINDS: tuple[Moderated, ...] = ("question", "answer")
ODD = ["", " ", "天文台 🔭", "a\x00b", "word " * 20_000]


class ModeratorConformance:
    """A word on every text, whoever else asks at the same time, and a reason for each refusal."""

    refused: ClassVar[str]
    refused_kind: ClassVar[Moderated] = "question"
    harmless: ClassVar[str] = "How long is the notice period?"

    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_is_harmless_passes(self, moderator: Moderator, kind: Moderated) -> None:
        assert await moderator.objection(kind, self.harmless) is None

    async def test_what_is_refused_has_a_reason(self, moderator: Moderator) -> None:
        reason = await moderator.objection(self.refused_kind, self.refused)
        assert reason
        assert reason.strip() == reason
        assert self.refused not in reason, "a reason is shown, and must not repeat what is refused"

    @pytest.mark.parametrize("kind", KINDS)
    async def test_no_text_is_too_odd_for_it(self, moderator: Moderator, kind: Moderated) -> None:
        for text in ODD:
            word = await moderator.objection(kind, text)
            assert word is None or word.strip()

    async def test_those_who_ask_at_once_get_their_own_word(self, moderator: Moderator) -> None:
        texts = [self.harmless, self.refused] * 4
        words = await asyncio.gather(
            *(moderator.objection(self.refused_kind, text) for text in texts)
        )
        assert [word is None for word in words] == [True, False] * 4

    def test_its_name_says_who_it_is(self, moderator: Moderator) -> None:
        assert moderator.name.strip() == moderator.name != ""
