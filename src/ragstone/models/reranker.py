"""Score how well passages answer a question: pairs of texts → one logit each.

The model is ms-marco-MiniLM-L-12-v2 as int8 ONNX (`ragstone models pull ms-marco-minilm-l12`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import MissingModelError
from ragstone.models.embedder import open_session
from ragstone.models.registry import find_model, is_installed, locate_model
from ragstone.threads import opened_once

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL = "ms-marco-minilm-l12"
# The model reads 512 tokens; half of it holds a question and a chunk, at half the cost.
MAX_TOKENS = 256


def load_pair_tokenizer(file: Path) -> Tokenizer:
    """Load a tokenizer for pairs: it cuts the longer of the two texts to make both fit."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    # The file pads everything to 512 tokens.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return tokenizer


def make_missing_error() -> MissingModelError:
    return MissingModelError(
        f"The reranker {MODEL} is not installed.",
        hint=f"Install it with: ragstone models pull {MODEL}",
    )


class CrossEncoder:
    """Run the cross-encoder, loaded at first use from the directory of pulled models."""

    def __init__(self, models: Path, *, threads: int = 1) -> None:
        self._directory = locate_model(find_model(MODEL), models)
        self._is_installed = is_installed(find_model(MODEL), models)
        self._threads = threads
        self.opening = threading.RLock()

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return load_pair_tokenizer(self._directory / "tokenizer.json")

    @opened_once
    def _session(self) -> Any:
        if not self._is_installed:
            raise make_missing_error()
        return open_session(str(self._directory / "model.onnx"), threads=self._threads)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Return one logit per passage; a score does not depend on the other passages."""
        session = self._session
        input_names = {tensor.name for tensor in session.get_inputs()}
        scores = np.zeros(len(passages), dtype=np.float32)
        # One pair at a time: padding to the longest of a batch costs more than it saves.
        for at, passage in enumerate(passages):
            encoding = self._tokenizer.encode(question, passage)
            rows = {
                "input_ids": encoding.ids,
                "attention_mask": encoding.attention_mask,
                "token_type_ids": encoding.type_ids,
            }
            inputs = {name: np.array([rows[name]], dtype=np.int64) for name in input_names}
            scores[at] = float(np.asarray(session.run(None, inputs)[0]).reshape(-1)[0])
        return scores
