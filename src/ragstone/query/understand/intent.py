"""Detect the intent of a text in three layers: phrases, classifier and exemplars, model."""

from __future__ import annotations

import hashlib
import io
import math
import tomllib
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import get_args

import numpy as np

from ragstone.errors import SettingsError
from ragstone.evidence import DetectedIntent
from ragstone.files import replace_file
from ragstone.protocols import Chat, Embedder, Vectors
from ragstone.query.understand.nouns import is_english
from ragstone.query.understand.rewrite import judge_intent
from ragstone.query.understand.small_talk import classify_small_talk, match_small_talk
from ragstone.text import normalize_words
from ragstone.types import SMALL_TALK, Intent

# A near-verbatim exemplar of another kind of request ("summarize the document").
_NEAR_VERBATIM = 0.8


def detect_without_model(
    text: str, embedder: Embedder, exemplars: Exemplars, *, threshold: float
) -> tuple[DetectedIntent, bool]:
    """Run layers 0 and 1; return also whether a model should be asked."""
    if (small_talk := match_small_talk(text)) is not None:
        return DetectedIntent(small_talk, 1.0, 0), False
    talk = classify_small_talk(text)
    if talk is not None and talk.probability >= threshold:
        return DetectedIntent(talk.intent, talk.probability, 1), False
    if not is_known_script(embedder, text):
        return DetectedIntent("question", 0.5, 1), True
    near = exemplars.compare(text, embedder.embed([text])[0])
    if near.small_talk >= threshold:
        return DetectedIntent(near.talk, near.small_talk, 1), False
    if near.other != "question" and near.other_similarity >= _NEAR_VERBATIM:
        return DetectedIntent(near.other, min(1.0, near.other_similarity), 1), False
    return DetectedIntent("question", 1 - near.small_talk, 1), near.small_talk > 1 - threshold


async def detect_with_model(chat: Chat, text: str) -> DetectedIntent:
    """Run layer 2: ask a model."""
    judged = await judge_intent(chat, text)
    return DetectedIntent(judged.intent, judged.confidence, 2)


# English text has 3 to 5 letters to a token of the shipped embedder, German and Spanish 2.5,
# Russian 1.0: below this its similarities mean little.
MIN_LETTERS_PER_TOKEN = 1.5


def is_known_script(embedder: Embedder, text: str) -> bool:
    """Return True when the embedder was trained on the script of a text."""
    letters = sum(char.isalnum() for char in text)
    return letters >= MIN_LETTERS_PER_TOKEN * len(embedder.token_starts(text))


_NEAREST = 3
# Logistic regression on half of the utterances, checked on the other half (bench/intent.py): the
# mean similarity to the three nearest small talk and other exemplars, the share and the logarithm
# of the number of words that no small talk exemplar has, and a constant.
_CALIBRATED_FOR = "ragstone-embed-l6-v1"
_SAME_QUESTION = 0.85
# With any other embedder only a nearly verbatim exemplar counts as small talk.
_SAME = 0.95
_NEAR_TALK, _NEAR_OTHER, _STRANGE_SHARE, _STRANGE_COUNT, _CONSTANT = (
    40.51,
    -26.39,
    2.28,
    -3.69,
    -5.0,
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
    """.split()  # noqa: SIM905  a list of words reads better as text
)


@dataclass(frozen=True, slots=True)
class ExemplarMatch:
    """Hold how a text compares with the exemplars."""

    small_talk: float
    """The calibrated probability of small talk."""
    talk: Intent
    other: Intent
    other_similarity: float


@dataclass(frozen=True, slots=True)
class Exemplars:
    """Hold typical utterances with their intents and vectors."""

    intents: tuple[Intent, ...]
    vectors: Vectors
    talk_words: frozenset[str]
    is_calibrated: bool = True
    """False for an embedder that the constants were not fitted to."""

    def compare(self, text: str, vector: Vectors) -> ExemplarMatch:
        """Estimate from the nearest exemplars whether a text is small talk."""
        similarities = self.vectors @ vector
        is_talk = np.array([intent in SMALL_TALK for intent in self.intents])
        talk, other = np.flatnonzero(is_talk), np.flatnonzero(~is_talk)
        words = normalize_words(text)
        strange = sum(word not in self.talk_words for word in words)
        logit = (
            _NEAR_TALK * _average_nearest(similarities[talk])
            + _NEAR_OTHER * _average_nearest(similarities[other])
            + _STRANGE_SHARE * strange / max(1, len(words))
            + _STRANGE_COUNT * math.log1p(strange)
            + _CONSTANT
        )
        nearest_talk = float(similarities[talk].max())
        if is_about_something_else(words) and nearest_talk < _NEAR_ENOUGH:
            logit = min(logit, 0.0)
        # The embedder read little of other languages, a single word says too little, and what is
        # asked of "you" may be asked of the owner of the documents ("Are you hiring?").
        is_vague = len(words) < 2 or is_english(text) is not True or bool(_ASKS & set(words))
        if is_vague and nearest_talk < _SAME_QUESTION:
            logit = min(logit, 0.0)
        if not self.is_calibrated:
            logit = 3.0 if nearest_talk >= _SAME else -3.0
        best_other = int(other[np.argmax(similarities[other])])
        return ExemplarMatch(
            small_talk=1 / (1 + math.exp(-max(-60.0, min(60.0, logit)))),
            talk=self.intents[int(talk[np.argmax(similarities[talk])])],
            other=self.intents[best_other],
            other_similarity=float(similarities[best_other]),
        )


def is_about_something_else(words: Sequence[str]) -> bool:
    """Return True for a question without "you": "What is the code?"."""
    return bool(words) and words[0] in _ASKS and not _ADDRESSES.intersection(words)


def _average_nearest(similarities: Vectors) -> float:
    return float(np.sort(similarities)[-_NEAREST:].mean())


def load_exemplars(embedder: Embedder, *, own_file: Path | None, cache: Path | None) -> Exemplars:
    """Read the exemplars and embed them: about a second, once per data directory."""
    intents, texts = _read_exemplars(own_file)
    return Exemplars(
        is_calibrated=embedder.name == _CALIBRATED_FOR,
        intents=tuple(intents),
        vectors=_embed_once(embedder, texts, cache),
        talk_words=frozenset(
            word
            for intent, text in zip(intents, texts, strict=True)
            if intent in SMALL_TALK
            for word in normalize_words(text)
        ),
    )


_vectors_by_stamp: dict[str, Vectors] = {}


def _embed_once(embedder: Embedder, texts: list[str], cache: Path | None) -> Vectors:
    stamp = hashlib.sha256("\0".join((embedder.name, *texts)).encode()).hexdigest()[:16]
    if stamp not in _vectors_by_stamp:
        file = None if cache is None else cache / f"exemplars-{stamp}.npy"
        vectors = None if file is None else _load_vectors(file)
        if vectors is None:
            vectors = embedder.embed(texts)
            if file is not None:
                _save_vectors(file, vectors)
        _vectors_by_stamp[stamp] = vectors
    return _vectors_by_stamp[stamp]


def _load_vectors(file: Path) -> Vectors | None:
    """Read vectors from the cache; None if there are none or a bit of them has changed."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    body, checksum = content[:-4], content[-4:]
    if zlib.crc32(body).to_bytes(4, "little") != checksum:
        return None
    vectors: Vectors = np.load(io.BytesIO(body))
    return vectors


def _save_vectors(file: Path, vectors: Vectors) -> None:
    """Write the vectors to the cache; a failure only costs time later."""
    buffer = io.BytesIO()
    np.save(buffer, vectors)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        body = buffer.getvalue()
        replace_file(file, body + zlib.crc32(body).to_bytes(4, "little"))


def _read_exemplars(own_file: Path | None) -> tuple[list[Intent], list[str]]:
    intents: list[Intent] = []
    texts: list[str] = []
    shipped = resources.files(__package__).joinpath("exemplars.toml").read_text("utf-8")
    tables = [tomllib.loads(shipped)]
    if own_file is not None:
        tables.append(_read_own_exemplars(own_file))
    known: dict[str, Intent] = {intent: intent for intent in get_args(Intent)}
    for table in tables:
        for intent, by_language in table.items():
            if intent not in known:
                raise SettingsError(
                    f"Unknown intent '{intent}' in the exemplars.",
                    hint=f"Known: {', '.join(known)}.",
                )
            for utterances in by_language.values():
                intents.extend([known[intent]] * len(utterances))
                texts.extend(utterances)
    return intents, texts


def _read_own_exemplars(file: Path) -> dict[str, dict[str, list[str]]]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"Cannot read the exemplars '{file}': {error}.",
            hint="It must be a TOML file in UTF-8, shaped like exemplars.toml of the package.",
        ) from error
