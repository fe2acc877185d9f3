"""Hold what all frames of made-up facts share: the words, and the value a frame returns."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTRADICTED, NEUTRAL, NOT_SUPPORTED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Fact:
    """Hold one fact: wordings that agree, and wordings that do not, with their label."""

    kind: str
    same: tuple[str, ...]
    changed: tuple[tuple[str, int], ...]


WORDS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "facts.toml").read_text("utf-8"))


def up(text: str) -> str:
    """Start with a capital letter."""
    return text[:1].upper() + text[1:]


def pick_two(options: tuple[str, ...] | list[str], rng: random.Random) -> tuple[str, str]:
    """Draw two different ones."""
    first, second = rng.sample(list(options), 2)
    return first, second
