"""The three-layer intent router: hard rules, exemplars, and a model for what is still ambiguous."""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import get_args

import numpy as np

from ragstone.errors import SettingsError
from ragstone.protocols import Chat, Embedder, Vectors
from ragstone.query.evidence import Detected
from ragstone.query.understand.rewrite import judge_intent
from ragstone.text import spoken_words
from ragstone.types import SMALL_TALK, Intent

# English text has 3 to 5 letters to a token of the shipped embedder, German and Spanish 2.5,
# Russian 1.0: below this its similarities mean little.
FEWEST_LETTERS_PER_TOKEN = 1.5


def knows_script(embedder: Embedder, text: str) -> bool:
    letters = sum(char.isalnum() for char in text)
    return letters >= FEWEST_LETTERS_PER_TOKEN * len(embedder.token_starts(text))


_WORD = re.compile(r"\w+", re.UNICODE)
_APOSTROPHES = re.compile(r"['’`´]")
# When an utterance holds several: "hi, thanks, bye" ends a conversation.
_ORDER: tuple[Intent, ...] = ("help", "farewell", "gratitude", "chitchat", "greeting")


def hard_rule(text: str) -> Intent | None:
    """The small talk that a text consists of; None as soon as one word is left over."""
    words, phrases = spoken_words(text), _phrases()
    found: set[Intent] = set()
    at = 0
    while at < len(words):
        length = next(
            (n for n in range(min(_longest(), len(words) - at), 0, -1)
             if words[at : at + n] in phrases),
            0,
        )  # fmt: skip
        if not length:
            return None
        meant = phrases[words[at : at + length]]
        if meant is not None:
            found.add(meant)
        at += length
    return next((intent for intent in _ORDER if intent in found), None)


@cache
def _phrases() -> dict[tuple[str, ...], Intent | None]:
    """Every phrase with what it means; fillers mean nothing."""
    text = resources.files(__package__).joinpath("phrases.toml").read_text("utf-8")
    tables: dict[str, list[str]] = tomllib.loads(text)
    known: dict[tuple[str, ...], Intent | None] = {
        spoken_words(phrase): None for phrase in tables["filler"]
    }
    for intent in reversed(_ORDER):
        known.update({spoken_words(phrase): intent for phrase in tables[intent]})
    return known


@cache
def _longest() -> int:
    return max(map(len, _phrases()))


_NEAREST = 3
# Logistic regression on half of the utterances, checked on the other half (bench/intent.py): the
# mean similarity to the three nearest small talk and other exemplars, the share and the logarithm
# of the number of words that no small talk exemplar has, and a constant.
_CALIBRATED_FOR = "all-minilm-l6-v2"
# With any other embedder small talk must be an exemplar, all but word for word.
_SAME = 0.95
_NEAR_TALK, _NEAR_OTHER, _STRANGE_SHARE, _STRANGE_COUNT, _CONSTANT = (
    34.82,
    -22.21,
    1.32,
    -4.09,
    -2.54,
)


# "What is the meaning of life" may be small talk, "What is the code?" never.
_NEAR_ENOUGH = 0.5
_ASKS = frozenset(
    """
    what whats who whos whom whose when where wheres which why how hows is are was were do does did
    can could should will would has have wer was wann wo warum wie welche welcher welches ist sind
    qué que quién cuándo dónde cómo cuál cuánto quel quelle qui quand où comment pourquoi combien
    che chi quando dove come quale quanto qual quem onde wat waar hoe welke
    """.split()  # noqa: SIM905  a list of words reads better as text
)
_ADDRESSES = frozenset(
    """
    you your yours yourself youre youve u ur ya du dich dir dein deine deiner deinen euch tu te ti
    toi ton ta tes vous votre tú usted eres tienes puedes sabes tuo tua sei você seu sua je jij jou
    jouw
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Nearest:
    """What the exemplars say of a question."""

    small_talk: float
    """The probability of small talk, calibrated."""
    talk: Intent
    other: Intent
    other_similarity: float


@dataclass(frozen=True, slots=True)
class Exemplars:
    """Typical utterances with their intents and vectors."""

    intents: tuple[Intent, ...]
    vectors: Vectors
    talk_words: frozenset[str]
    calibrated: bool = True
    """False for an embedder that the constants above were not fitted for."""

    def nearest(self, text: str, vector: Vectors) -> Nearest:
        similarities = self.vectors @ vector
        is_talk = np.array([intent in SMALL_TALK for intent in self.intents])
        talk, other = np.flatnonzero(is_talk), np.flatnonzero(~is_talk)
        words = spoken_words(text)
        strange = sum(word not in self.talk_words for word in words)
        logit = (
            _NEAR_TALK * _mean_of_nearest(similarities[talk])
            + _NEAR_OTHER * _mean_of_nearest(similarities[other])
            + _STRANGE_SHARE * strange / max(1, len(words))
            + _STRANGE_COUNT * math.log1p(strange)
            + _CONSTANT
        )
        nearest_talk = float(similarities[talk].max())
        if asks_about_something_else(words) and nearest_talk < _NEAR_ENOUGH:
            logit = min(logit, 0.0)
        if not self.calibrated:
            logit = 3.0 if nearest_talk >= _SAME else -3.0
        best_other = int(other[np.argmax(similarities[other])])
        return Nearest(
            small_talk=1 / (1 + math.exp(-max(-60.0, min(60.0, logit)))),
            talk=self.intents[int(talk[np.argmax(similarities[talk])])],
            other=self.intents[best_other],
            other_similarity=float(similarities[best_other]),
        )


def asks_about_something_else(words: Sequence[str]) -> bool:
    """A question without a word for the one it is put to: "What is the code?"."""
    return bool(words) and words[0] in _ASKS and not _ADDRESSES.intersection(words)


def _mean_of_nearest(similarities: Vectors) -> float:
    return float(np.sort(similarities)[-_NEAREST:].mean())


def load_exemplars(embedder: Embedder, *, own_file: Path | None, cache: Path | None) -> Exemplars:
    """Read, embed (about a second, once per data directory) and keep."""
    intents, texts = _read(own_file)
    return Exemplars(
        calibrated=embedder.name == _CALIBRATED_FOR,
        intents=tuple(intents),
        vectors=_vectors(embedder, texts, cache),
        talk_words=frozenset(
            word
            for intent, text in zip(intents, texts, strict=True)
            if intent in SMALL_TALK
            for word in spoken_words(text)
        ),
    )


_embedded: dict[str, Vectors] = {}


def _vectors(embedder: Embedder, texts: list[str], cache: Path | None) -> Vectors:
    stamp = hashlib.sha256("\0".join((embedder.name, *texts)).encode()).hexdigest()[:16]
    if stamp not in _embedded:
        file = None if cache is None else cache / f"exemplars-{stamp}.npy"
        if file is not None and file.is_file():
            _embedded[stamp] = np.load(file)
        else:
            _embedded[stamp] = embedder.embed(texts)
            if file is not None:
                _keep(file, _embedded[stamp])
    return _embedded[stamp]


def _keep(file: Path, vectors: Vectors) -> None:
    """A cache that cannot be written is no reason to fail."""
    from ragstone.files import replace_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, _npy(vectors))
    except OSError:
        return


def _npy(vectors: Vectors) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, vectors)
    return buffer.getvalue()


def _read(own_file: Path | None) -> tuple[list[Intent], list[str]]:
    intents: list[Intent] = []
    texts: list[str] = []
    shipped = resources.files(__package__).joinpath("exemplars.toml").read_text("utf-8")
    tables = [tomllib.loads(shipped)]
    if own_file is not None:
        tables.append(_own(own_file))
    known: dict[str, Intent] = {intent: intent for intent in get_args(Intent)}
    for table in tables:
        for intent, by_language in table.items():
            if intent not in known:
                raise SettingsError(
                    f"The exemplars have an unknown intent '{intent}'.",
                    hint=f"Known: {', '.join(known)}.",
                )
            for utterances in by_language.values():
                intents.extend([known[intent]] * len(utterances))
                texts.extend(utterances)
    return intents, texts


def _own(file: Path) -> dict[str, dict[str, list[str]]]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"The exemplars '{file}' cannot be read: {error}.",
            hint="It must be a TOML file in UTF-8, shaped like exemplars.toml of the package.",
        ) from error


# A near-verbatim exemplar of another kind of request ("summarize the document").
_NEAR_VERBATIM = 0.8


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
