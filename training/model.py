"""The shipped network: BERT layers of MiniLM with three heads, and its base out of an ONNX file.

The base is ms-marco-MiniLM-L-12-v2 as int8 ONNX; each linear layer is stored as integers with a
scale and a zero point, W = (q - zero) * scale, and is turned back into floating point here.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, WIDE, VOCABULARY, POSITIONS, EPSILON = 384, 12, 1536, 30522, 512, 1e-12
CLASSES = 3  # supported, contradicted, neutral
RANK_SCALE = 5.0  # the base model's scores run from -11 to 10


def choose_dtype(x: Tensor) -> torch.dtype:
    """Return the type that attention computes in."""
    return torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else x.dtype


class Layer(nn.Module):
    """One transformer layer, norms after the sums."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, EPSILON)
        self.up = nn.Linear(HIDDEN, WIDE)
        self.down = nn.Linear(WIDE, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, EPSILON)

    def forward(self, x: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        y = self.out(mixed.transpose(1, 2).reshape(batch, length, HIDDEN))
        x = self.norm1(x + functional.dropout(y, dropout, self.training))
        y = self.down(functional.gelu(self.up(x)))
        return self.norm2(x + functional.dropout(y, dropout, self.training))


class Reading(nn.Module):
    """The trunk with its heads: read (start, end), verify (three classes), rank (one score)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.places = nn.Embedding(POSITIONS, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.read = nn.Linear(HIDDEN, 2)
        self.verify_pool = nn.Linear(HIDDEN, HIDDEN)
        self.verify = nn.Linear(HIDDEN, CLASSES)
        self.rank_pool = nn.Linear(HIDDEN, HIDDEN)
        self.rank = nn.Linear(HIDDEN, 1)
        self.dropout = 0.0

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return start/end logits, class logits and rank score."""
        length = ids.shape[1]
        x = self.words(ids) + self.places.weight[:length] + self.types(types)
        x = functional.dropout(self.norm(x), self.dropout, self.training)
        bias = torch.zeros(mask.shape, dtype=choose_dtype(x), device=x.device)
        bias = bias.masked_fill(~mask, -30000.0)[:, None, None, :].expand(-1, HEADS, length, -1)
        for layer in self.layers:
            x = layer(x, bias, self.dropout if self.training else 0.0)
        spans = self.read(x).float().masked_fill(~mask[:, :, None], -30000.0)
        first = x[:, 0]
        verdict = self.verify(torch.tanh(self.verify_pool(first))).float()
        score = self.rank(torch.tanh(self.rank_pool(first))).float()[:, 0]
        return spans, verdict, score


def start_weights(model: Reading) -> None:
    """Start the new heads near zero and everything as BERT does."""
    for module in (model.read, model.verify_pool, model.verify):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


def read_base(path: Path) -> dict[str, np.ndarray]:
    """Read the base model's tensors as floating point, under BERT's names."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    tensors: dict[str, np.ndarray] = {}
    for name, value in stored.items():
        if not name.endswith("_quantized"):
            if value.dtype == np.float32 and not name.endswith("_scale"):
                tensors[name] = value
            continue
        stem = name.removesuffix("_quantized")
        zero = stored[f"{stem}_zero_point"].astype(np.float32)
        tensors[stem] = (value.astype(np.float32) - zero) * stored[f"{stem}_scale"]
    makers = {output: node for node in graph.node for output in node.output}
    for node in graph.node:  # a linear layer takes its name from the bias that is added
        bias = [one for one in node.input if node.op_type == "Add" and one.endswith(".bias")]
        if not bias or "LayerNorm" in bias[0]:
            continue
        other = next(one for one in node.input if one not in bias)
        while other in makers and makers[other].op_type != "MatMulInteger":
            other = next(
                (one for one in makers[other].input if one in makers and "scale" not in one), ""
            )
        if other in makers:
            weight = makers[other].input[1].removesuffix("_quantized")
            tensors[bias[0].removesuffix(".bias") + ".weight"] = tensors[weight].T
    return tensors


def load_base(path: Path) -> Reading:
    """Build the 12-layer network with the base weights; read and verify heads are new."""
    tensors = read_base(path)
    model = Reading(12)
    start_weights(model)

    def put(target: Tensor, name: str) -> None:
        value = torch.from_numpy(np.array(tensors[name]))
        if target.shape != value.shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, not {tuple(target.shape)}")
        target.data.copy_(value)

    def put_linear(target: nn.Linear | nn.LayerNorm, name: str) -> None:
        put(target.weight, f"{name}.weight")
        put(target.bias, f"{name}.bias")

    put(model.words.weight, "bert.embeddings.word_embeddings.weight")
    put(model.places.weight, "bert.embeddings.position_embeddings.weight")
    put(model.types.weight, "bert.embeddings.token_type_embeddings.weight")
    put_linear(model.norm, "bert.embeddings.LayerNorm")
    for number, layer in enumerate(model.layers):
        prefix = f"bert.encoder.layer.{number}"
        parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        for i, part in enumerate(parts):
            rows = slice(i * HIDDEN, (i + 1) * HIDDEN)
            put(layer.qkv.weight[rows], f"{part}.weight")
            put(layer.qkv.bias[rows], f"{part}.bias")
        put_linear(layer.out, f"{prefix}.attention.output.dense")
        put_linear(layer.norm1, f"{prefix}.attention.output.LayerNorm")
        put_linear(layer.up, f"{prefix}.intermediate.dense")
        put_linear(layer.down, f"{prefix}.output.dense")
        put_linear(layer.norm2, f"{prefix}.output.LayerNorm")
    put_linear(model.rank_pool, "bert.pooler.dense")
    put_linear(model.rank, "classifier")
    return model


def save_int8(model: nn.Module, folder: Path, *, piece: int = 15 << 20) -> None:
    """Write the weights as int8 with one scale a row, in files of at most 15 MiB."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in model.state_dict().items():
        array = value.detach().float().cpu().numpy()
        if array.ndim == 2 and len(array) > 2:
            scale = np.abs(array).max(1, keepdims=True) / 127 + 1e-12
            arrays[f"{name}|q"] = np.round(array / scale).astype(np.int8)
            arrays[f"{name}|s"] = scale.astype(np.float32)
        else:
            arrays[name] = array
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("int8.*"):
        path.unlink()
    flat = file.getvalue()
    for number, begin in enumerate(range(0, len(flat), piece)):
        (folder / f"int8.{number}").write_bytes(flat[begin : begin + piece])


def read_int8(folder: Path) -> dict[str, Tensor]:
    """Read the weights written by `save_int8`, as float32."""
    paths = sorted(folder.glob("int8.*"), key=lambda path: int(path.suffix[1:]))
    if not paths:
        raise FileNotFoundError(f"{folder} holds no int8.* files.")
    stored = np.load(io.BytesIO(b"".join(path.read_bytes() for path in paths)))
    state = {}
    for key in stored.files:
        name, _, part = key.partition("|")
        if part == "q":
            state[name] = torch.from_numpy(stored[key].astype(np.float32) * stored[f"{name}|s"])
        elif not part:
            state[name] = torch.from_numpy(stored[key])
    return state


def load_int8(folder: Path, layers: int) -> Reading:
    """Build the network with the weights written by `save_int8`."""
    model = Reading(layers)
    state = read_int8(folder)
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model
