"""Tell small talk from questions: word for word, or by a small classifier for any language.

text → its kind of small talk, or None. Layer 0 knows closed lists of phrases. Layer 1 is a linear
classifier over hashed pieces of words, fitted by `training/small_talk.py`.
"""

from __future__ import annotations

import io
import re
import tomllib
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragstone.index.analyze import FUNCTION_WORDS
from ragstone.query.understand.nouns import QUESTION_WORDS, load_words
from ragstone.text import normalize_words
from ragstone.types import SMALL_TALK, Intent

# Of several in one text the first here counts: "hi, thanks, bye" is a farewell.
_PRIORITY = ("help", "farewell", "gratitude", "chitchat", "greeting", "acknowledgement")
KINDS = ("question", *_PRIORITY)
"""The classes of the classifier, in the order of its weights."""

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_NAMES = {
    "en": "english", "de": "german", "es": "spanish", "fr": "french", "it": "italian",
    "pt": "portuguese", "nl": "dutch", "ru": "russian", "zh": "chinese", "pl": "polish",
    "tr": "turkish", "other": "english",
}  # fmt: skip
_LAUGHS = re.compile(
    r"a?(?:ha|he|hi|ja|je|ah|ха|хе|хи)(?:h?a?(?:ha|he|hi|ja|je|ah|ха|хе|хи))+h?|k{3,}|l+o+l+|哈+|呵+"
)


@dataclass(frozen=True, slots=True)
class SmallTalk:
    """Hold the kind of small talk that a text consists of, and how sure that is."""

    kind: str
    probability: float = 1.0

    @property
    def intent(self) -> Intent:
        kinds: dict[str, Intent] = {one: one for one in SMALL_TALK}
        return kinds.get(self.kind, "chitchat")


def match_small_talk(text: str) -> Intent | None:
    """Return the small talk that a text consists of; None if any other word is in it."""
    found = find_small_talk(text)
    return None if found is None else found.intent


@lru_cache(maxsize=64)
def find_small_talk(text: str) -> SmallTalk | None:
    """Find small talk word for word: phrases and fillers of one language, and nothing else."""
    words = _split(text)
    for phrases in _load_phrases().values():
        kinds, strange = _tile(words, phrases)
        if kinds and not strange:
            return SmallTalk(next(one for one in _PRIORITY if one in kinds))
    return None


# The end of a part of a message: a mark, or without one what begins the next question.
_MAX_CHARS = 2_000
_SPACE = re.compile(r"\s+")
_PART_END = re.compile(r"[,.;:!?…–—，。！？、]+\s*|\s+-\s+|\n\s*")
_NEXT_QUESTION = re.compile(
    r"\s+(?=(?:"
    + "|".join(map(re.escape, (*load_words()["continues"], *sorted(QUESTION_WORDS))))
    + r")\b)",
    re.IGNORECASE,
)
_LAST_PART = re.compile(r"(?P<rest>.*[,.;!?])\s*(?P<last>[^,.;!?]+)[.!]*", re.DOTALL)


@lru_cache(maxsize=256)
def strip_small_talk(text: str) -> str:
    """Return a message without the small talk around its question: "Thanks, and in 2023?".

    What corrects the last question ("No, the winter") stays; so does small talk alone.
    """
    if len(text) > _MAX_CHARS:
        return text
    # Long runs of white space would cost the patterns below their square.
    rest = _SPACE.sub(lambda found: "\n" if "\n" in found[0] else " ", text.strip())
    if find_small_talk(rest) is not None:
        return text
    whole = rest
    while match := _PART_END.search(rest):
        first = rest[: match.start()]
        talks = find_small_talk(first) is not None and first.casefold() not in _CORRECTIONS
        if not talks or not rest[match.end() :]:
            break
        rest = rest[match.end() :]
    if match := _NEXT_QUESTION.search(rest):
        talk = find_small_talk(rest[: match.start()])
        rest = rest[match.end() :] if talk is not None and talk.kind == "gratitude" else rest
    if match := _LAST_PART.fullmatch(rest):
        talk = find_small_talk(match["last"])
        rest = match["rest"] if talk is not None and talk.kind == "gratitude" else rest
    return rest if rest != whole else text


_CORRECTIONS = frozenset(load_words()["corrects"])


def detect_talk_language(text: str) -> str | None:
    """Return the language whose phrases and function words cover the most words of a text."""
    words = _split(text)
    best, least = None, len(words)
    for language, phrases in _load_phrases().items():
        known = FUNCTION_WORDS.get(_NAMES[language], frozenset())
        _, strange = _tile(words, phrases, known)
        if strange < least:
            best, least = _NAMES[language], strange
    return best


def _split(text: str) -> tuple[str, ...]:
    """Return the words of a text; Chinese and Japanese are read letter by letter."""
    return tuple(
        part for word in normalize_words(text) for part in (word if _CJK.search(word) else (word,))
    )


def _tile(
    words: Sequence[str],
    phrases: Mapping[tuple[str, ...], str],
    known: frozenset[str] = frozenset(),
) -> tuple[set[str], int]:
    """Cover words with phrases, the longest first; return their kinds and the words left over."""
    kinds: set[str] = set()
    strange = at = 0
    first_words = _find_first_words()
    while at < len(words):
        # Most words of a question begin no phrase of any language.
        longest = min(first_words.get(words[at], 0), len(words) - at)
        parts = (tuple(words[at : at + n]) for n in range(longest, 0, -1))
        part = next((one for one in parts if one in phrases), None)
        if part is None and _is_laugh(words[at]):
            kinds.add("chitchat")
        elif part is None:
            strange += words[at] not in known
        elif phrases[part] != "filler":
            kinds.add(phrases[part])
        at += len(part or (1,))
    return kinds, strange


@lru_cache(maxsize=4_096)
def _is_laugh(word: str) -> bool:
    return _LAUGHS.fullmatch(word) is not None


@cache
def _load_phrases() -> dict[str, dict[tuple[str, ...], str]]:
    """Load for every language its phrases with their kind, `filler` among them."""
    text = resources.files(__package__).joinpath("phrases.toml").read_text("utf-8")
    tables: dict[str, dict[str, list[str]]] = tomllib.loads(text)
    known: dict[str, dict[tuple[str, ...], str]] = {}
    for kind in ("filler", *reversed(_PRIORITY)):
        for language, phrases in tables[kind].items():
            known.setdefault(language, {}).update({_split(one): kind for one in phrases})
    return known


@cache
def _find_first_words() -> dict[str, int]:
    """Return the length of the longest phrase that begins with each word."""
    found: dict[str, int] = {}
    for phrases in _load_phrases().values():
        for phrase in phrases:
            found[phrase[0]] = max(found.get(phrase[0], 0), len(phrase))
    return found


# Small talk is short. A longer message asks something, or is a text to be read.
_MAX_CHARS = 200
_LONGEST_PIECE = 5
_SURE_THANKS = 0.7
# One or two words say little, and what asks may ask the documents: the odds that it is small talk
# are divided by this.
_FEW_WORDS = 2
_DOUBT = 3.0
_ASKS = ("?", "？", "؟")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_REPEATED = re.compile(r"(.)\1{2,}", re.DOTALL)
_LENGTHS = (1, 2, 3, 4, 6, 9, 13)


def split_tokens(text: str) -> list[str]:
    """Split a text into words and marks, without case, accents and stretched letters."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return _TOKEN.findall(_REPEATED.sub(r"\1\1", unicodedata.normalize("NFC", plain)))


def list_pieces(tokens: Sequence[str]) -> Iterator[str]:
    """List the pieces of each word, one to five characters long; its ends count as characters."""
    for token in tokens:
        framed = f" {token} "
        for length in range(1, _LONGEST_PIECE + 1):
            for at in range(len(framed) - length + 1):
                yield framed[at : at + length]


def list_words(tokens: Sequence[str]) -> Iterator[str]:
    """List the words and pairs of words."""
    for before, token in pairwise(("^", *tokens, "$")):
        yield f"w {token}"
        yield f"b {before} {token}"


def list_shapes(text: str) -> Iterator[str]:
    """List what a text looks like: its length, marks, and how much of it the phrases cover."""
    words = _split(text)
    kinds, strange = set[str](), len(words)
    for language, phrases in _load_phrases().items():
        found, left = _tile(words, phrases, FUNCTION_WORDS.get(_NAMES[language], frozenset()))
        if (left, -len(found)) < (strange, -len(kinds)):
            kinds, strange = found, left
    asks = text.rstrip().endswith(_ASKS)
    size = sum(len(words) > length for length in _LENGTHS)
    yield f"n {size} {asks}"
    yield f"d {any(word.isdigit() for word in words)}"
    yield f"s {min(strange, 4)} {bool(kinds)} {asks}"
    yield f"r {round(4 * strange / max(1, len(words)))} {bool(kinds)}"


def compute_features(text: str) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Return the hashes of pieces, words and shape with their values; each part has the norm 1.

    What the classifier does not know still counts in the norm, so that strange words leave the
    others less to say.
    """
    tokens = split_tokens(text)
    hashes, values = [], []
    for names in (list_pieces(tokens), list_words(tokens), list_shapes(text)):
        found = np.array([zlib.crc32(name.encode()) for name in names], dtype=np.uint32)
        unique, counts = np.unique(found, return_counts=True)
        hashes.append(unique)
        values.append(np.sqrt(counts / max(1, int(counts.sum()))))
    return np.concatenate(hashes), np.concatenate(values)


def hash_line(text: str) -> np.uint32:
    """Return the hash of a whole message, without case and marks."""
    return np.uint32(zlib.crc32("\0".join(_split(text)).encode()))


@dataclass(frozen=True, slots=True)
class SmallTalkModel:
    """Hold a linear classifier: a row of int8 weights for each hash, a column for each kind."""

    hashes: NDArray[np.uint32]
    weights: NDArray[np.int8]
    scale: NDArray[np.float32]
    bias: NDArray[np.float32]
    lines: NDArray[np.uint32]
    """Hashes of whole messages that people write as small talk."""

    def is_known(self, text: str) -> bool:
        """Return True for small talk that somebody wrote word for word."""
        line = hash_line(text)
        at = min(int(np.searchsorted(self.lines, line)), len(self.lines) - 1)
        return bool(self.lines[at] == line)

    def compute_probabilities(self, text: str) -> NDArray[np.float64]:
        """Return the probability of each of `KINDS`."""
        hashes, values = compute_features(text)
        rows = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        known = self.hashes[rows] == hashes
        found = self.weights[rows[known]].astype(np.float64)
        logits = (values[known] @ found) * self.scale + self.bias
        powers = np.exp(logits - logits.max())
        return np.asarray(powers / powers.sum())


@cache
def load_model() -> SmallTalkModel:
    file = resources.files(__package__).joinpath("small_talk.npz").read_bytes()
    with np.load(io.BytesIO(file)) as stored:
        names = ("hashes", "weights", "scale", "bias", "lines")
        return SmallTalkModel(*(stored[name] for name in names))


def classify_small_talk(text: str) -> SmallTalk | None:
    """Return the likeliest kind of small talk and its probability; None for a long text."""
    if len(text) > _MAX_CHARS or not text.strip():
        return None
    model = load_model()
    found = model.compute_probabilities(text)
    kind = KINDS[1 + int(np.argmax(found[1:]))]
    # An insult is worded like a praise; "You're welcome" is said only to what is surely thanks.
    if kind == "gratitude" and found[KINDS.index(kind)] < _SURE_THANKS * (1 - found[0]):
        kind = "chitchat"
    words = _split(text)
    if words and model.is_known(text):
        return SmallTalk(kind)
    odds = float(1 - found[0]) / max(float(found[0]), 1e-9)
    if 0 < len(words) <= _FEW_WORDS:
        odds /= _DOUBT
    if text.rstrip().endswith(_ASKS) or (words and words[0] in QUESTION_WORDS):
        odds /= _DOUBT
    return SmallTalk(kind, odds / (1 + odds))
