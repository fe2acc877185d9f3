"""Read the teachers and the student's start, and pack weights into few bytes.

ONNX or safetensors files → arrays under the names BERT gives them, fp32; and back from a package
of a few bits per weight that is small enough to send to a training machine.
"""

from __future__ import annotations

import io
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = dict[str, Array]

HIDDEN, HEADS = 384, 12
MATRICES = (
    "attention.self.query", "attention.self.key", "attention.self.value",
    "attention.output.dense", "intermediate.dense", "output.dense",
)  # fmt: skip
TABLES = (
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "embeddings.token_type_embeddings.weight",
)


def read_safetensors(path: Path) -> Weights:
    """Read the fp32 tensors of a safetensors file."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32" or name.startswith("pooler"):
            continue
        flat = np.frombuffer(
            data, "<f4", math.prod(entry["shape"]), start + entry["data_offsets"][0]
        )
        found[name] = flat.reshape(entry["shape"])
    return found


def read_onnx(path: Path) -> Weights:
    """Read BERT's weights from an ONNX export, fp32 or dynamically quantised to int8.

    Exports name a matrix by a number; the product's node carries the layer's name.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}

    def fetch(name: str) -> Array:
        if not name.endswith("_quantized"):
            return stored[name].astype(np.float32)
        stem = name.removesuffix("_quantized")
        levels, zero = stored[name].astype(np.float32), stored[f"{stem}_zero_point"]
        return (levels - zero.astype(np.float32)) * stored[f"{stem}_scale"]

    found = {name: value for name, value in stored.items() if is_vector(name)}
    for table in TABLES:
        found[table] = fetch(table if table in stored else f"{table}_quantized")
    for node in graph.node:
        if node.op_type not in ("MatMul", "MatMulInteger") or node.input[1] not in stored:
            continue
        parts = node.name.split("/")  # /encoder/layer.0/attention/self/query/MatMul
        name = ".".join(part for part in parts[1:-1])
        found[f"{name}.weight"] = fetch(node.input[1]).T
    return found


def is_vector(name: str) -> bool:
    return name.startswith(("embeddings.", "encoder.")) and (
        name.endswith((".bias", "LayerNorm.weight"))
    )


def count_layers(weights: Weights) -> int:
    return 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder."))


def check_complete(weights: Weights) -> None:
    """Raise unless every matrix of every layer is there."""
    for layer in range(count_layers(weights)):
        for name in MATRICES:
            full = f"encoder.layer.{layer}.{name}.weight"
            if full not in weights:
                raise ValueError(f"The weights lack {full}.")


def keep_layers(weights: Weights, layers: tuple[int, ...]) -> Weights:
    """Copy the embeddings and only these layers, numbered anew."""
    kept = {name: value for name, value in weights.items() if name.startswith("embeddings.")}
    for new, old in enumerate(layers):
        prefix = f"encoder.layer.{old}."
        for name, value in weights.items():
            if name.startswith(prefix):
                kept[f"encoder.layer.{new}.{name.removeprefix(prefix)}"] = value
    return kept


# ── Packages ──────────────────────────────────────────────────────────────────────────────────


def quantise_rows(matrix: Array, bits: int) -> tuple[Array, Array]:
    """Round each row to symmetric levels; the scale that gives the least squared error of few."""
    most = 2 ** (bits - 1) - 1
    peak = np.abs(matrix).max(1, keepdims=True)
    best_error = np.full((len(matrix), 1), np.inf)
    best_scale = peak / most
    for share in (1.0, 0.9, 0.8, 0.7, 0.6):
        scale = np.maximum(peak * share / most, 1e-12)
        error = ((rounded(matrix, scale, most) * scale - matrix) ** 2).sum(1, keepdims=True)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        best_scale = np.where(better, scale, best_scale)
    scale = best_scale.astype(np.float16).astype(np.float32)
    return rounded(matrix, scale, most).astype(np.int8), scale.astype(np.float16)


def rounded(matrix: Array, scale: Array, most: int) -> Array:
    return np.clip(np.rint(matrix / scale), -most, most)


def pack(weights: Weights, bits: int, table_bits: int | None = None) -> bytes:
    """Write the weights as levels per row (vectors as fp16), compressed."""
    arrays: Weights = {}
    for name, value in weights.items():
        if value.ndim == 2:
            width = (table_bits or bits) if name in TABLES else bits
            arrays[f"{name}|levels"], arrays[f"{name}|scale"] = quantise_rows(value, width)
        else:
            arrays[name] = value.astype(np.float16 if np.abs(value).max() < 6e4 else np.float32)
    return compress(arrays)


def compress(arrays: Weights) -> bytes:
    """Huffman code alone: levels have no repetitions to find, and LZMA was fifty times slower."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    coder = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(file.getvalue()) + coder.flush()


def unpack(data: bytes) -> Weights:
    """Read back what `pack` wrote, in fp32."""
    stored = np.load(io.BytesIO(zlib.decompress(data)))
    weights = {}
    for name in stored.files:
        if name.endswith("|levels"):
            stem = name.removesuffix("|levels")
            scale = stored[f"{stem}|scale"].astype(np.float32)
            weights[stem] = stored[name].astype(np.float32) * scale
        elif not name.endswith("|scale"):
            weights[name] = stored[name].astype(np.float32)
    return weights
