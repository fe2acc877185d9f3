"""Embed texts with the shipped model: text → unit vectors, on the CPU, no network.

The model is ragstone-embed-l6 as int8 ONNX with pooling and normalisation in the graph.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import SettingsError, StoreError
from ragstone.models.registry import ModelCard, is_installed, list_models, locate_model
from ragstone.protocols import Embedder, Vectors
from ragstone.settings import Settings
from ragstone.threads import opened_once

if TYPE_CHECKING:
    from tokenizers import Tokenizer


SHIPPED_MODEL = "ragstone-embed-l6"
# Another version gives other vectors: its collections must not mix with these.
SHIPPED_VERSION = "1"
SHIPPED_NAME = f"{SHIPPED_MODEL}-v{SHIPPED_VERSION}"

# Texts of similar length share a batch up to this many tokens, padding included: beyond it a
# batch falls out of the processor's cache (27 CPU ms for a passage alone, 47 in a batch of 32).
BATCH_TOKENS = 256


class OnnxEmbedder:
    """Embed sentences with an ONNX model and its tokenizer, loaded at first use."""

    name: str = SHIPPED_NAME
    dimension: int = 384
    max_tokens: int = 512
    languages: frozenset[str] | None = frozenset({"english"})
    """The languages it was trained on, by the names of `index.analyze`; None if not known."""

    def __init__(self, directory: Path | None = None, *, threads: int = 1) -> None:
        self._directory = directory or Path(
            str(resources.files(__package__) / "data" / SHIPPED_MODEL)
        )
        self._threads = threads
        self.opening = threading.RLock()

    @property
    def tokenizer_file(self) -> Path:
        """Locate the tokenizer, for processes that only count tokens."""
        return self._directory / "tokenizer.json"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self._directory)

    @opened_once
    def _session(self) -> Any:
        content = read_model_file(self._directory, "model.onnx")
        with explain_damage(self._directory, "model.onnx"):
            return open_session(content, threads=self._threads)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text; text beyond `max_tokens` does not count."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return vectors
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts))]
        # The last token is the end marker and must survive the cut.
        ids = [
            row if len(row) <= self.max_tokens else [*row[: self.max_tokens - 1], row[-1]]
            for row in ids
        ]
        for batch in group_by_length([len(row) for row in ids], max_tokens=BATCH_TOKENS):
            vectors[batch] = self._run([ids[i] for i in batch])
        return vectors

    def _run(self, rows: list[list[int]]) -> Vectors:
        ids, mask = pad_rows(rows)
        result: Vectors = self._session.run(
            ["embedding"], {"input_ids": ids, "attention_mask": mask}
        )[0]
        return result

    def token_starts(self, text: str) -> Sequence[int]:
        """Return the offset of every token of `text`, in order, without the special ones."""
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return [start for start, _ in encoding.offsets]


def pad_rows(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the token ids as one array, padded with 0, and the mask of the real ones."""
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)], mask[at, : len(row)] = row, 1
    return ids, mask


def open_session(model: bytes | str, *, threads: int, operators: str = "") -> Any:
    """Open an ONNX model, given as bytes or as a path; `operators` is a library of more of them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if operators:
        options.register_custom_ops_library(operators)
    # Spinning threads would take CPU time from everything else on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def read_model_file(directory: Path, name: str) -> bytes:
    """Read a file of a shipped model."""
    try:
        return (directory / name).read_bytes()
    except FileNotFoundError as error:
        raise StoreError(
            f"The file {name} of the model {directory.name} is missing from the installation.",
            hint="Install Ragstone again.",
        ) from error
    except OSError as error:
        raise StoreError(
            f"The file {directory / name} cannot be read: {error.strerror}."
        ) from error


@contextmanager
def explain_damage(directory: Path, name: str) -> Iterator[None]:
    """Turn the errors of the libraries that load a model's file into ours."""
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:  # each library has its own errors, without a common base
        is_shipped = directory.is_relative_to(Path(__file__).parent)
        pull = f"Download it again with: ragstone models pull {directory.name}"
        raise StoreError(
            f"The file {name} of the model {directory.name} is damaged.",
            hint="Install Ragstone again." if is_shipped else pull,
        ) from error


def load_tokenizer(directory: Path) -> Tokenizer:
    """Load the tokenizer of a shipped model; the caller pads and truncates."""
    from tokenizers import Tokenizer

    content = read_model_file(directory, "tokenizer.json")
    with explain_damage(directory, "tokenizer.json"):
        tokenizer = Tokenizer.from_str(content.decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def group_by_length(lengths: Sequence[int], *, max_tokens: int) -> Iterator[list[int]]:
    """Group positions by length, shortest first, up to `max_tokens` with padding."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > max_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _normalize(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(lengths, 1e-6)).astype(np.float32, copy=False)
    return unit


# The model cuts its tokens itself, in the graph; this estimate is for the sizes of chunks.
_ESTIMATED_TOKEN = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\ud7af]{1,2}|\w{1,6}|[^\w\s]"
)


# What the multilingual encoder was trained on; not Hindi, Vietnamese, Greek or Romanian.
MULTILINGUAL = frozenset({
    "arabic", "chinese", "dutch", "english", "french", "german", "italian", "japanese", "korean",
    "polish", "portuguese", "russian", "spanish", "thai", "turkish",
})  # fmt: skip


class TextEmbedder:
    """Run the multilingual sentence encoder, whose tokenizer is a part of its graph."""

    languages: frozenset[str] | None = MULTILINGUAL

    def __init__(self, card: ModelCard, models: Path, *, threads: int = 1) -> None:
        self.name = card.name
        self.dimension = card.dimension or 0
        self.max_tokens = card.max_tokens or 512
        self._directory = locate_model(card, models)
        self._threads = threads
        self.opening = threading.RLock()

    @opened_once
    def _session(self) -> Any:
        try:
            from onnxruntime_extensions import get_library_path
        except ImportError as error:
            raise SettingsError(
                f"The embedding model {self.name} needs the package onnxruntime-extensions.",
                hint="Install it with: pip install 'ragstone[multilingual]'",
            ) from error
        content = read_model_file(self._directory, "model.onnx")
        with explain_damage(self._directory, "model.onnx"):
            return open_session(content, threads=self._threads, operators=get_library_path())

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text.

        One at a time: the model is quantised as it runs, and a neighbour would change the scale.
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for at, text in enumerate(texts):
            vectors[at] = self._session.run(None, {"inputs": np.array([text], dtype=object)})[0][0]
        return _normalize(vectors)

    def token_starts(self, text: str) -> Sequence[int]:
        """Return the offset of every token, as estimated from words and characters."""
        return [found.start() for found in _ESTIMATED_TOKEN.finditer(text)]


class PulledEmbedder(OnnxEmbedder):
    """Run a pulled model whose graph ends at the hidden states of the tokens."""

    def __init__(self, card: ModelCard, models: Path, *, threads: int = 1) -> None:
        super().__init__(locate_model(card, models), threads=threads)
        self.name = card.name
        self.dimension = card.dimension or 0
        self.max_tokens = card.max_tokens or 512
        self._takes_first = card.pooling == "first"

    def _run(self, rows: list[list[int]]) -> Vectors:
        ids, mask = pad_rows(rows)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: Vectors = self._session.run(None, inputs)[0]
        if self._takes_first:
            return _normalize(hidden[:, 0])
        return _normalize((hidden * mask[:, :, None]).sum(axis=1, dtype=np.float32))


def build_embedder(settings: Settings) -> Embedder:
    """Build the shipped embedder, or the pulled one that `embed.model` names."""
    name = settings.embed.model
    if settings.embed.uses_shipped or name == SHIPPED_MODEL:
        return OnnxEmbedder()
    usable = {card.name: card for card in list_models() if card.pooling}
    name = next((card.name for card in usable.values() if card.alias == name), name)
    if name not in usable:
        raise SettingsError(
            f"The builtin embedder does not know the model '{name}'.",
            hint=f"Set EMBEDDING_MODEL to one of: {', '.join([SHIPPED_MODEL, *usable])}.",
        )
    models = settings.data.models
    if not is_installed(usable[name], models):
        raise SettingsError(
            f"The embedding model {name} is not installed.",
            hint=f"Install it with: ragstone models pull {usable[name].alias or name}",
        )
    if usable[name].pooling == "graph":
        return TextEmbedder(usable[name], models)
    return PulledEmbedder(usable[name], models)
