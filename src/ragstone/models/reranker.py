"""The cross-encoder that reads a question and a passage together: pairs → one logit each.

ms-marco-MiniLM-L-12-v2 as int8 ONNX, pulled with `ragstone models pull ms-marco-minilm-l12`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import StoreError
from ragstone.models.registry import find_model, is_installed, model_path

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL = "ms-marco-minilm-l12"
# The model reads 512 tokens; half of it holds a question and a chunk, at half the cost.
MAX_TOKENS = 256


def pair_tokenizer(file: Path) -> Tokenizer:
    """A tokenizer for a question and a passage: the longer of the two is cut to make both fit."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    # The file pads everything to 512 tokens.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return tokenizer


class CrossEncoder:
    """Loaded at first use; `models` is the directory that models are pulled into."""

    def __init__(self, models: Path, *, threads: int = 1) -> None:
        self._directory = model_path(find_model(MODEL), models)
        self._installed = is_installed(find_model(MODEL), models)
        self._threads = threads
        self._loading = threading.Lock()

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return pair_tokenizer(self._directory / "tokenizer.json")

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        if not self._installed:
            raise StoreError(
                f"The reranker's model {MODEL} is not installed.",
                hint=f"Fetch it with: ragstone models pull {MODEL}",
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with self._loading:
            return onnxruntime.InferenceSession(
                str(self._directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """One logit per passage; a passage's score does not depend on the others."""
        session = self._session
        wanted = {one.name for one in session.get_inputs()}
        scores = np.zeros(len(passages), dtype=np.float32)
        # One pair at a time: padding to the longest of a batch costs more than it saves.
        for at, passage in enumerate(passages):
            encoding = self._tokenizer.encode(question, passage)
            given = {
                "input_ids": encoding.ids,
                "attention_mask": encoding.attention_mask,
                "token_type_ids": encoding.type_ids,
            }
            inputs = {
                name: np.array([row], dtype=np.int64)
                for name, row in given.items()
                if name in wanted
            }
            scores[at] = float(np.asarray(session.run(None, inputs)[0]).reshape(-1)[0])
        return scores
