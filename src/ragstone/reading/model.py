"""Read questions, passages and claims with the shipped cross-encoder: pairs of texts → judgements.

One network of six layers has three heads: read (where is the answer?), verify (does the evidence
support the claim?) and rank (how relevant is the passage?). It is loaded at first use. `training/`
says how it is made.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import StoreError
from ragstone.models.embedder import (
    explain_damage,
    group_by_length,
    load_tokenizer,
    open_session,
    read_model_file,
)
from ragstone.threads import opened_once

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

SHIPPED_MODEL = "ragstone-reading-l12"
# Every version has the tokenizer of the base model, unless its card names another hash.
_TOKENIZER_SHA256 = "9114256b104cca80e04367526f03f46aa3c443c2ed174904142a73bbf13b9fbb"
# A question and a chunk of 200 tokens fit; longer passages are read in overlapping windows.
MAX_TOKENS = 320
_WINDOW_OVERLAP = 64
_MAX_SPAN_TOKENS = 40
_MAX_QUESTION_TOKENS = 96
# Pairs of similar length share a batch up to this many tokens, padding included.
_BATCH_TOKENS = 512
_MAX_KEPT = 64

_Outputs = tuple[NDArray[np.float32], NDArray[np.float32], float]


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """Locate the best answer of one passage: `passages[passage][start:end]`."""

    passage: int
    start: int
    end: int
    score: float
    """Log odds of this span against "no answer"; above 0 the passage answers."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Hold the best span of every passage, best first."""

    spans: tuple[AnswerSpan, ...] = ()

    @property
    def best(self) -> AnswerSpan | None:
        return self.spans[0] if self.spans else None

    @property
    def score(self) -> float:
        """Log odds that any passage answers; minus infinity without passages."""
        return self.spans[0].score if self.spans else float("-inf")


_NO_SPAN = AnswerSpan(0, 0, 0, float("-inf"))


@dataclass(slots=True)
class PassageReading:
    """Hold the best span of each sentence of a passage, and how relevant the passage is."""

    spans: list[AnswerSpan]
    relevance: float
    """The rank head's logit."""


@dataclass(frozen=True, slots=True)
class VerifierScores:
    """Hold the probabilities that evidence supports a claim, contradicts it, or says neither."""

    supported: float
    contradicted: float
    neutral: float

    @property
    def is_support(self) -> bool:
        return self.supported > max(self.contradicted, self.neutral)

    @property
    def is_contradiction(self) -> bool:
        return self.contradicted > max(self.supported, self.neutral)


@dataclass(frozen=True, slots=True)
class _Window:
    """One part of a passage as the model reads it together with the first text."""

    passage: int
    encoding: Encoding
    offset: int


@dataclass
class ReadingModel:
    """Run the network. Safe to use from several threads."""

    directory: Path = field(
        default_factory=lambda: Path(
            str(resources.files("ragstone.models") / "data" / SHIPPED_MODEL)
        )
    )
    threads: int = 1
    opening: threading.RLock = field(default_factory=threading.RLock)
    _kept: OrderedDict[tuple[str, str, tuple[tuple[int, int], ...]], PassageReading] = field(
        default_factory=OrderedDict
    )

    @property
    def is_installed(self) -> bool:
        return (self.directory / "model.onnx").is_file()

    def read(self, question: str, passages: Sequence[str]) -> Reading:
        """Find the best answer span of each passage."""
        best: dict[int, AnswerSpan] = {}
        windows = self._windows(question, passages)
        for window, (spans, _, _) in zip(windows, self._run(windows), strict=True):
            found = _best_span(window, spans)
            known = best.get(window.passage)
            if found is not None and (known is None or found.score > known.score):
                best[window.passage] = found
        ordered = sorted(best.values(), key=lambda span: (-span.score, span.passage))
        return Reading(tuple(ordered))

    def read_sentences(
        self, question: str, passages: Sequence[str], sentences: Sequence[Sequence[tuple[int, int]]]
    ) -> list[PassageReading]:
        """Find the best answer span inside each sentence of each passage.

        A sentence outside every window, or without tokens, has the score minus infinity. The last
        readings are kept: a second search brings most of the passages of the first again.
        """
        keys = [
            (question, text, tuple(spans)) for text, spans in zip(passages, sentences, strict=True)
        ]
        known = {key: kept for key in keys if (kept := self._kept.get(key)) is not None}
        new = [key for key in dict.fromkeys(keys) if key not in known]
        read = [PassageReading([_NO_SPAN] * len(spans), -np.inf) for _, _, spans in new]
        windows = self._windows(question, [text for _, text, _ in new])
        for window, (logits, _, score) in zip(windows, self._run(windows), strict=True):
            one = read[window.passage]
            one.relevance = max(one.relevance, score)
            for at, found in _best_spans_within(window, logits, new[window.passage][2]):
                if found.score > one.spans[at].score:
                    one.spans[at] = found
        known.update(zip(new, read, strict=True))
        with self.opening:
            self._kept.update(zip(new, read, strict=True))
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return [known[key] for key in keys]

    def verify(self, pairs: Sequence[tuple[str, str]]) -> list[VerifierScores]:
        """Judge each claim against its evidence: pairs of (claim, evidence)."""
        windows = [
            _Window(number, self._encode(claim, evidence), 0)
            for number, (claim, evidence) in enumerate(pairs)
        ]
        judged: list[VerifierScores] = []
        for _, logits, _ in self._run(windows):
            weights = np.exp(logits - logits.max())
            supported, contradicted, neutral = (weights / weights.sum()).tolist()
            judged.append(VerifierScores(supported, contradicted, neutral))
        return judged

    def rank(self, question: str, passages: Sequence[str]) -> list[float]:
        """Score how relevant each passage is to the question, as a logit."""
        windows = [
            _Window(number, self._encode(question, passage), 0)
            for number, passage in enumerate(passages)
        ]
        return [score for _, _, score in self._run(windows)]

    @cached_property
    def _card(self) -> dict[str, Any]:
        content = read_model_file(self.directory, "model.json")
        with explain_damage(self.directory, "model.json"):
            card: dict[str, Any] = json.loads(content)
            return {"tokenizer_sha256": _TOKENIZER_SHA256, **card, "sha256": str(card["sha256"])}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        self._read_checked("tokenizer.json", "tokenizer_sha256")
        return load_tokenizer(self.directory)

    @opened_once
    def _session(self) -> Any:
        content = self._read_checked("model.onnx", "sha256")
        return open_session(content, threads=self.threads)

    def _read_checked(self, name: str, key: str) -> bytes:
        """Read a file whose hash is in the card.

        A truncated or exchanged file would give wrong numbers without an error.
        """
        content = read_model_file(self.directory, name)
        if hashlib.sha256(content).hexdigest() != self._card[key]:
            raise StoreError(
                f"The file {name} of the model {self.directory.name} is damaged.",
                hint="Install Ragstone again.",
            )
        return content

    def check_files(self) -> str:
        """Compare every file with its hash, and return the version of the model."""
        self._read_checked("tokenizer.json", "tokenizer_sha256")
        self._read_checked("model.onnx", "sha256")
        return str(self._card.get("version", "unknown"))

    def _encode(self, first: str, second: str) -> Encoding:
        """Encode a pair, both texts cut where they do not fit."""
        encoding = self._tokenizer.encode(first, second)
        if len(encoding.ids) <= MAX_TOKENS:
            return encoding
        return next(self._split(first, second)).encoding

    def _windows(self, question: str, passages: Sequence[str]) -> list[_Window]:
        windows: list[_Window] = []
        for number, passage in enumerate(passages):
            encoding = self._tokenizer.encode(question, passage)
            if len(encoding.ids) <= MAX_TOKENS:
                windows.append(_Window(number, encoding, 0))
            else:
                windows += self._split(question, passage, number)
        return windows

    def _split(self, first: str, second: str, number: int = 0) -> Iterator[_Window]:
        """Yield windows over a long second text, each with the first text, cut to a limit."""
        question = self._tokenizer.encode(first, add_special_tokens=False)
        if len(question.ids) > _MAX_QUESTION_TOKENS:
            first = first[: question.offsets[_MAX_QUESTION_TOKENS][0]]
        room = MAX_TOKENS - 3 - min(len(question.ids), _MAX_QUESTION_TOKENS)
        starts = self._tokenizer.encode(second, add_special_tokens=False).offsets
        for begin in range(0, max(1, len(starts)), room - _WINDOW_OVERLAP):
            part = starts[begin : begin + room]
            offset, end = (part[0][0], part[-1][1]) if part else (0, 0)
            yield _Window(number, self._tokenizer.encode(first, second[offset:end]), offset)
            if begin + room >= len(starts):
                return

    def _run(self, windows: Sequence[_Window]) -> list[_Outputs]:
        """Run the network over windows, in batches of similar length."""
        outputs: list[_Outputs | None] = [None] * len(windows)
        lengths = [len(window.encoding.ids) for window in windows]
        for batch in group_by_length(lengths, max_tokens=_BATCH_TOKENS):
            results = self._run_batch([windows[at].encoding for at in batch])
            for at, result in zip(batch, results, strict=True):
                outputs[at] = result
        return [one for one in outputs if one is not None]

    def _run_batch(self, encodings: Sequence[Encoding]) -> list[_Outputs]:
        width = max(len(one.ids) for one in encodings)
        names = ("input_ids", "token_type_ids", "attention_mask")
        feed = {name: np.zeros((len(encodings), width), dtype=np.int64) for name in names}
        for row, one in enumerate(encodings):
            size = len(one.ids)
            feed["input_ids"][row, :size] = one.ids
            feed["token_type_ids"][row, :size] = one.type_ids
            feed["attention_mask"][row, :size] = 1
        spans, verdicts, scores = self._session.run(["spans", "verdict", "score"], feed)
        return [
            (spans[row, : len(one.ids)], verdicts[row], float(scores[row]))
            for row, one in enumerate(encodings)
        ]


def _best_span(window: _Window, logits: NDArray[np.float32]) -> AnswerSpan | None:
    """Return the best span of a window, or None when its passage is empty."""
    places = _find_passage_tokens(window.encoding)
    if not places.size:
        return None
    return _find_span(window, window.encoding.offsets, *_normalize(logits), places)


def _best_spans_within(
    window: _Window, logits: NDArray[np.float32], sentences: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, AnswerSpan]]:
    """Yield the best span of each sentence that has tokens in the window."""
    start, end = _normalize(logits)
    places = _find_passage_tokens(window.encoding)
    offsets = window.encoding.offsets  # every access makes the list anew
    begins = np.array([window.offset + offsets[at][0] for at in places])
    for at, (first, last) in enumerate(sentences):
        inside = places[(begins >= first) & (begins < last)]
        if inside.size:
            yield at, _find_span(window, offsets, start, end, inside)


def _find_passage_tokens(encoding: Encoding) -> NDArray[np.intp]:
    inside = np.array([kind == 1 for kind in encoding.type_ids])
    inside[-1] = False  # the separator at the end
    return np.flatnonzero(inside)


def _normalize(logits: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logarithms of the probabilities that each token starts and ends the answer."""
    start, end = logits[:, 0].astype(np.float64), logits[:, 1].astype(np.float64)
    return start - np.logaddexp.reduce(start), end - np.logaddexp.reduce(end)


def _find_span(
    window: _Window,
    offsets: Sequence[tuple[int, int]],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    places: NDArray[np.intp],
) -> AnswerSpan:
    """Return the best span that starts and ends at one of the places."""
    scores = start[places][:, None] + end[places][None, :]
    ahead = places[None, :] - places[:, None]
    scores[(ahead < 0) | (ahead >= _MAX_SPAN_TOKENS)] = -np.inf
    first, last = np.unravel_index(int(np.argmax(scores)), scores.shape)
    begin, stop = offsets[int(places[first])][0], offsets[int(places[last])][1]
    score = float(scores[first, last] - start[0] - end[0])
    return AnswerSpan(window.passage, window.offset + begin, window.offset + stop, score)


@cache
def load_reading_model() -> ReadingModel:
    """Return the shipped model, one for the whole process; its file is read at first use."""
    return ReadingModel()
