"""How far a text carries a claim: word and meaning overlap, weighed, and the facts compared.

claim and sentences of a text → the window (one sentence or two neighbours) that supports it best,
a score from 0 to 1, and what disagrees. No LLM: microseconds for a quotation, a few embeddings for
a claim in other words.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ragstone.index.analyze import terms
from ragstone.protocols import Embedder
from ragstone.query.check.facts import Disagreement, disagreements
from ragstone.reading.units import Unit
from ragstone.text import support

_WORDS = re.compile(r"\w+(?:['’]\w+)*")
# Fewer words fit too many places by chance.
_FEWEST = 4


def exchanged_words(claim: str, evidence: str) -> Iterator[Disagreement]:
    """What a text says in the place of the one word that it does not share with a claim.

    Whether the two mean the same is not known here, so it is no contradiction; but it is no
    support either.
    """
    said, there = _words(claim), _words(evidence)
    if len(said) < _FEWEST:
        return
    found: tuple[str, str] | None = None
    for at in range(len(there) - len(said) + 1):
        pairs = zip(said, there[at:], strict=False)
        other = [(ours, theirs) for ours, theirs in pairs if not _same(ours, theirs)]
        if not other:
            return
        if len(other) == 1 and all(map(terms, other[0])):
            found = other[0]
    if found:
        reason = f"The source says “{found[1]}” where this says “{found[0]}”."
        yield Disagreement("word", reason, contradicts=False)


def _words(text: str) -> list[str]:
    return _WORDS.findall(text)


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() or (terms(one) == terms(other) != [])


_QUOTED = re.compile(r"“([^“”]{3,})”|„([^“”„]{3,})[“”]|\"([^\"]{3,})\"|«([^«»]{3,})»")


def quotations(text: str) -> list[str]:
    """What stands in quotation marks and is long enough to be one: two words or more."""
    found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(text))
    return [quoted for quoted in found if len(quoted.split()) >= 2]


def missing_quotations(claim: str, texts: Iterable[str]) -> list[str]:
    """Quotations that no text holds, letter for letter up to white space and Unicode form."""
    plain = [_plain(text) for text in texts]
    return [q for q in quotations(claim) if not any(_plain(q) in text for text in plain)]


def _plain(text: str) -> str:
    flat = unicodedata.normalize("NFKC", text).translate(_SAME_SIGNS)
    return " ".join(flat.split()).strip(" .,;:!?")


_SAME_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "−": "-", "\xad": None}
)


FEATURES = ("content", "runs", "content_three", "content_all", "cosine", "cosine_three",
            "missing", "contradicting", "length", "weighed", "weighed_two", "terms_missing",
            "share_missing", "sentences", "numbers")  # fmt: skip
# A window that shares this much with a claim is what the claim was made from: what disagrees
# there decides, whatever other sentences say.
NEARLY_A_QUOTATION = 0.7
# What is found to disagree cannot score higher than this; below it a claim is not grounded.
CONTRADICTED_AT_MOST = 0.25
_WINDOWS_COMPARED = 3
_SENTENCES_EMBEDDED = 6
# A quotation needs no look at its meaning.
_CERTAIN = 0.9


@dataclass(frozen=True, slots=True)
class Support:
    """The part of a text that supports a claim best, at `text[start:end]`."""

    start: int
    end: int
    score: float
    overlap: float
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def contradicted(self) -> bool:
        return any(one.contradicts for one in self.disagreements)


@dataclass(frozen=True, slots=True)
class _Window:
    start: int
    end: int
    text: str
    overlap: float
    content: float


@cache
def shipped_weights() -> tuple[NDArray[np.float64], float]:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table: Mapping[str, float] = tomllib.loads(text)["support"]
    return np.array([table[name] for name in FEATURES]), float(table["bias"])


def best_support(
    claim: str, text: str, parts: Sequence[Unit], embedder: Embedder | None
) -> Support:
    """The best window of a text for a claim. Without an embedder words alone decide."""
    quoted = next((part for part in parts if _same_words(part.words, claim)), None)
    if quoted is not None:
        return Support(quoted.start, quoted.end, 1.0, 1.0)
    windows = sorted(
        _windows(claim, text, parts), key=lambda w: (-(w.overlap + w.content), w.end - w.start)
    )
    if not windows:
        return Support(0, 0, 0.0, 0.0)
    first = windows[0]
    meant = 0.0
    if embedder is not None and first.overlap < _CERTAIN:
        sentences = [part.words for part in parts]
        meant = probability(support_features(claim, sentences, embedder))
    judged = [_judged(claim, window, text, meant) for window in windows[:_WINDOWS_COMPARED]]
    near = [one for one in judged if one.overlap >= NEARLY_A_QUOTATION]
    return max(near or judged, key=_preferred)


def _same_words(one: str, other: str) -> bool:
    return one == other or (one[:1] == other[:1] and one.split() == other.split())


def _preferred(one: Support) -> tuple[float, float, int, int]:
    """The best; of equally good ones the shortest, which is what a reader wants to see."""
    return one.score, one.overlap, one.start - one.end, -one.start


def _windows(claim: str, text: str, parts: Sequence[Unit]) -> list[_Window]:
    """Sentences, and pairs of neighbours: a claim often joins two."""
    wanted = set(terms(claim))
    spans = [(part.start, part.end, part.words) for part in parts]
    spans += [(a.start, b.end, f"{a.words} {b.words}") for a, b in itertools.pairwise(parts)]
    found = []
    for start, end, said in spans:
        content = len(wanted & set(terms(said))) / len(wanted) if wanted else 0.0
        found.append(_Window(start, end, said, support(claim, said), content))
    return found


def _judged(claim: str, window: _Window, text: str, meant: float) -> Support:
    against = (*disagreements(claim, window.text, text), *exchanged_words(claim, window.text))
    # Meaning is measured on the whole text; a window without the claim's words takes no part in it.
    score = max(window.overlap, meant * min(1.0, window.content * 2))
    if any(one.contradicts for one in against):
        score = min(score, CONTRADICTED_AT_MOST)
    return Support(window.start, window.end, score, window.overlap, against)


def support_features(
    claim: str, sentences: Sequence[str], embedder: Embedder
) -> NDArray[np.float64]:
    """One number per name in `FEATURES`."""
    wanted = set(terms(claim))
    held = [set(terms(sentence)) for sentence in sentences]
    shares = np.array([len(wanted & one) / len(wanted) if wanted else 0.0 for one in held])
    order = np.argsort(-shares, kind="stable")[:_SENTENCES_EMBEDDED]
    front = [sentences[place] for place in order]
    vectors = embedder.embed([claim, *front])
    cosine = vectors[1:] @ vectors[0]
    best = int(np.argmax(cosine + shares[order]))
    three = np.argsort(-(cosine + shares[order]), kind="stable")[:3]
    middle = vectors[1:][three].mean(axis=0)
    against = list(disagreements(claim, front[best], " ".join(sentences)))
    return np.array([
        shares[order][best],
        support(claim, front[best]),
        _covered(wanted, [held[order[place]] for place in three]),
        _covered(wanted, held),
        cosine[best],
        float(middle @ vectors[0] / (np.linalg.norm(middle) or 1.0)),
        min(sum(not one.contradicts for one in against), 3),
        min(sum(one.contradicts for one in against), 3),
        np.log1p(len(wanted)),
        *_weighed(wanted, held),
    ])  # fmt: skip


def _weighed(wanted: set[str], held: Sequence[set[str]]) -> list[float]:
    """Coverage by how rare a term is in the text, and what no sentence of it holds.

    These raised the AUROC on the fitted half, cross-validated, from 0.712, 0.658 and 0.767 (wice,
    climate-fever, scifact) to 0.742, 0.673 and 0.786.
    """
    count = Counter(term for sentence in held for term in sentence)
    weight = {t: math.log(1 + (len(held) + 1) / (count[t] + 0.5)) for t in wanted}
    total = sum(weight.values()) or 1.0

    def covered(terms_held: set[str]) -> float:
        return sum(weight[term] for term in wanted & terms_held) / total

    best = max(held, key=covered, default=set())
    two = max((covered(best | other) for other in held), default=0.0)
    missing = len(wanted - set(count))
    return [
        covered(best),
        two,
        min(missing, 6),
        missing / max(len(wanted), 1),
        math.log1p(len(held)),
        float(any(term.isdigit() for term in wanted)),
    ]


def _covered(wanted: set[str], held: Sequence[set[str]]) -> float:
    return len(wanted & set().union(*held)) / len(wanted) if wanted else 0.0


def probability(features: NDArray[np.float64]) -> float:
    """How probable it is that a reader would call the claim supported."""
    weights, bias = shipped_weights()
    return float(1.0 / (1.0 + np.exp(-(features @ weights + bias))))
