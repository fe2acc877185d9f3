"""The embedder that is shipped in the package: text → unit vectors, on the CPU, with no network.

all-MiniLM-L6-v2 as int8 ONNX with pooling and normalisation in the graph.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import StoreError
from ragstone.protocols import Vectors
from ragstone.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# Ids of words seen lately: a few tokens each, so this is 10 MB at most.
_MOST_WORDS = 50_000
_UNKNOWN = (100,)


class WordVectors:
    """Unit vectors of words, from the table beside the shipped embedder."""

    def __init__(self, embedder: OnnxEmbedder | None = None) -> None:
        self._embedder = embedder or OnnxEmbedder()
        self._ids: dict[str, tuple[int, ...]] = {}

    @cached_property
    def _table(self) -> NDArray[np.int8]:
        """Mapped, not read: the workers of a server share one copy."""
        table: NDArray[np.int8] = np.load(self._embedder.words_file, mmap_mode="r")
        return table

    def __call__(self, words: Sequence[str]) -> Vectors:
        """One row per word."""
        if not words:
            return np.zeros((0, self._table.shape[1]), dtype=np.float32)
        pieces = self._pieces(words)
        flat = [piece for row in pieces for piece in row]
        rows = _unit(self._table[flat].astype(np.float32))
        starts = np.cumsum([0, *(len(row) for row in pieces[:-1])])
        return _unit(np.add.reduceat(rows, starts))

    def _pieces(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        # Held on to: another thread may begin anew meanwhile.
        ids = self._ids
        new = [word for word in dict.fromkeys(words) if word not in ids]
        if len(ids) + len(new) > _MOST_WORDS:
            ids = self._ids = {}
            new = list(dict.fromkeys(words))
        if new:
            encoded = self._embedder.tokenizer.encode_batch_fast(new, add_special_tokens=False)
            ids.update(
                (word, tuple(one.ids) or _UNKNOWN) for word, one in zip(new, encoded, strict=True)
            )
        return [ids[word] for word in words]


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(lengths, 1e-6)).astype(np.float32, copy=False)
    return unit


@cache
def shipped_words() -> WordVectors:
    return WordVectors()


SHIPPED = "all-minilm-l6-v2"

# Texts of similar length share a batch up to this many tokens, padding included: beyond it a
# batch falls out of the processor's cache (27 CPU ms for a passage alone, 47 in a batch of 32).
BATCH_TOKENS = 256


class OnnxEmbedder:
    """A sentence embedder in ONNX with its tokenizer beside it, loaded at first use."""

    name = SHIPPED
    dimension = 384
    max_tokens = 256

    def __init__(self, directory: Path | None = None, *, threads: int = 1) -> None:
        self._directory = directory or Path(str(resources.files(__package__) / "data" / SHIPPED))
        self._threads = threads
        self._loading = threading.Lock()

    @property
    def tokenizer_file(self) -> Path:
        """For processes that only count tokens."""
        return self._directory / "tokenizer.json"

    @property
    def words_file(self) -> Path:
        """The vectors of single tokens, see `models/words.py`."""
        return self._directory / "words.npy"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self._read("tokenizer.json").decode("utf-8"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Spinning threads would burn the CPU time of whoever shares the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with self._loading:
            return onnxruntime.InferenceSession(
                self._read("model.onnx"), options, providers=["CPUExecutionProvider"]
            )

    def _read(self, file: str) -> bytes:
        try:
            return (self._directory / file).read_bytes()
        except OSError as error:
            raise StoreError(
                f"The embedder's file {file} is missing from the installation.",
                hint="Install Ragstone again.",
            ) from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text; what is beyond `max_tokens` does not count."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return vectors
        encoded = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts))]
        # The last token is the end marker and must survive the cut.
        ids = [row if len(row) <= self.max_tokens else [*row[: self.max_tokens - 1], row[-1]]
               for row in encoded]  # fmt: skip
        for batch in _batches([len(row) for row in ids]):
            vectors[batch] = self._run([ids[i] for i in batch])
        return vectors

    def _run(self, rows: list[list[int]]) -> Vectors:
        width = max(len(row) for row in rows)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        result: Vectors = self._session.run(
            ["embedding"], {"input_ids": ids, "attention_mask": mask}
        )[0]
        return result

    def token_starts(self, text: str) -> Sequence[int]:
        """The offset of every token of `text`, in order, without the special ones."""
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return [start for start, _ in encoding.offsets]


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions grouped by length, shortest first."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    yield batch


def build_embedder(settings: Settings) -> OnnxEmbedder:
    """Build the embedder that is inside the package; no setting changes it."""
    return OnnxEmbedder()
