"""Read questions, passages and claims with the shipped cross-encoder: pairs of texts → judgements.

One network of twelve layers has three heads: read (where is the answer?), verify (does the evidence
support the claim?) and rank (how relevant is the passage?). It is loaded at first use. `training/`
says how it is made.
"""

from __future__ import annotations

import hashlib
import json
import threading
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

_Outputs = tuple[NDArray[np.float32], NDArray[np.float32], float]


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """The best answer of one passage or unit: `passages[passage][start:end]`."""

    passage: int
    start: int
    end: int
    score: float
    """Log odds of this span against "no answer"; above 0 the passage answers."""


_NO_SPAN = AnswerSpan(0, 0, 0, float("-inf"))


@dataclass(frozen=True, slots=True)
class VerifierScores:
    """The probabilities that evidence supports a claim, contradicts it, or says neither."""

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

    @property
    def is_installed(self) -> bool:
        return (self.directory / "model.onnx").is_file()

    def read(
        self, question: str, passages: Sequence[str], units: Sequence[Sequence[tuple[int, int]]]
    ) -> list[list[AnswerSpan]]:
        """Find the best answer span inside each unit of each passage.

        A unit outside every window, or without tokens, has the score minus infinity.
        """
        best = [[_NO_SPAN] * len(spans) for spans in units]
        windows = self._windows(question, passages)
        for window, (logits, _, _) in zip(windows, self._run(windows), strict=True):
            found = best[window.passage]
            for at, span in _find_best_spans(window, logits, units[window.passage]):
                if span.score > found[at].score:
                    found[at] = span
        return best

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
        return [output for output in outputs if output is not None]

    def _run_batch(self, encodings: Sequence[Encoding]) -> list[_Outputs]:
        width = max(len(encoding.ids) for encoding in encodings)
        names = ("input_ids", "token_type_ids", "attention_mask")
        feed = {name: np.zeros((len(encodings), width), dtype=np.int64) for name in names}
        for row, encoding in enumerate(encodings):
            size = len(encoding.ids)
            feed["input_ids"][row, :size] = encoding.ids
            feed["token_type_ids"][row, :size] = encoding.type_ids
            feed["attention_mask"][row, :size] = 1
        spans, verdicts, scores = self._session.run(["spans", "verdict", "score"], feed)
        return [
            (spans[row, : len(encoding.ids)], verdicts[row], float(scores[row]))
            for row, encoding in enumerate(encodings)
        ]


def _find_best_spans(
    window: _Window, logits: NDArray[np.float32], units: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, AnswerSpan]]:
    """Yield the best span of each unit that has tokens in the window."""
    start, end = _normalize(logits)
    places = _find_passage_tokens(window.encoding)
    offsets = window.encoding.offsets  # every access makes the list anew
    begins = np.array([window.offset + offsets[at][0] for at in places])
    for at, (first, last) in enumerate(units):
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
