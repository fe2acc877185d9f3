"""The teacher's network: MPNet-base with the three heads of `training.model`.

The base is all-mpnet-base-v2. Its vocabulary is BERT's with four tokens in front, so packed rows
serve it as they are: an id becomes id + 4, and [CLS], [SEP] and padding become 0, 2 and 1.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.model import CLASSES, choose_dtype, read_int8
from training.pack import CLS, SEP

HIDDEN, HEADS, WIDE, VOCABULARY, POSITIONS, EPSILON = 768, 12, 3072, 30527, 514, 1e-5
BUCKETS, FARTHEST = 32, 128  # of relative positions
START, PADDING, END, SHIFT = 0, 1, 2, 4


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

    def forward(self, x: Tensor, bias: Tensor, dropout: float) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        y = self.out(mixed.transpose(1, 2).reshape(batch, length, HIDDEN))
        x = self.norm1(x + functional.dropout(y, dropout, self.training))
        y = self.down(functional.gelu(self.up(x)))
        return self.norm2(x + functional.dropout(y, dropout, self.training))


def bucket_distances(length: int, device: torch.device) -> Tensor:
    """Return the bucket of each pair of places: exact when near, logarithmic when far."""
    place = torch.arange(length, device=device)
    ahead = place[None, :] - place[:, None]
    half, near = BUCKETS // 2, BUCKETS // 4
    distance = ahead.abs()
    scale = (half - near) / math.log(FARTHEST / near)
    far = near + (torch.log(distance.float().clamp(min=1) / near) * scale).long()
    bucket = torch.where(distance < near, distance, far.clamp(max=half - 1))
    return bucket + (ahead > 0).long() * half


class MPNetReading(nn.Module):
    """MPNet's trunk with the heads of `training.model.Reading`: same inputs, same outputs."""

    def __init__(self, layers: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.places = nn.Embedding(POSITIONS, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, EPSILON)
        self.distances = nn.Embedding(BUCKETS, HEADS)
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
        words = torch.where(mask, ids + SHIFT, PADDING)
        words = words.masked_fill(ids == CLS, START).masked_fill(ids == SEP, END)
        x = self.words(words) + self.places.weight[2 : length + 2] + self.types(types)
        x = functional.dropout(self.norm(x), self.dropout, self.training)
        near = self.distances(bucket_distances(length, ids.device)).permute(2, 0, 1)[None]
        padded = torch.zeros(mask.shape, dtype=near.dtype, device=ids.device)
        padded = padded.masked_fill(~mask, -30000.0)[:, None, None, :]
        bias = (near.detach() + padded).to(choose_dtype(x))
        for layer in self.layers:
            x = layer(x, bias, self.dropout if self.training else 0.0)
        spans = self.read(x).float().masked_fill(~mask[:, :, None], -30000.0)
        first = x[:, 0]
        verdict = self.verify(torch.tanh(self.verify_pool(first))).float()
        score = self.rank(torch.tanh(self.rank_pool(first))).float()[:, 0]
        return spans, verdict, score


def read_safetensors(data: bytes) -> dict[str, np.ndarray]:
    """Read the float32 tensors of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(data[8 + size + begin : 8 + size + end], np.float32)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def load_base(tensors: dict[str, np.ndarray]) -> MPNetReading:
    """Build the network with the base's weights; heads and text types are new."""
    model = MPNetReading()
    for head in (model.read, model.verify_pool, model.verify, model.rank_pool, model.rank):
        nn.init.normal_(head.weight, std=0.02)
        nn.init.zeros_(head.bias)
    nn.init.zeros_(model.types.weight)
    names = {
        "words.weight": "embeddings.word_embeddings.weight",
        "places.weight": "embeddings.position_embeddings.weight",
        "distances.weight": "encoder.relative_attention_bias.weight",
    }
    for kind in ("weight", "bias"):
        names[f"norm.{kind}"] = f"embeddings.LayerNorm.{kind}"
        for number in range(len(model.layers)):
            layer, prefix = f"layers.{number}", f"encoder.layer.{number}"
            names[f"{layer}.out.{kind}"] = f"{prefix}.attention.attn.o.{kind}"
            names[f"{layer}.norm1.{kind}"] = f"{prefix}.attention.LayerNorm.{kind}"
            names[f"{layer}.up.{kind}"] = f"{prefix}.intermediate.dense.{kind}"
            names[f"{layer}.down.{kind}"] = f"{prefix}.output.dense.{kind}"
            names[f"{layer}.norm2.{kind}"] = f"{prefix}.output.LayerNorm.{kind}"
    state = model.state_dict()
    state |= {name: torch.from_numpy(tensors[source].copy()) for name, source in names.items()}
    for number in range(len(model.layers)):
        prefix = f"encoder.layer.{number}.attention.attn"
        for kind in ("weight", "bias"):
            parts = [tensors[f"{prefix}.{part}.{kind}"] for part in "qkv"]
            state[f"layers.{number}.qkv.{kind}"] = torch.from_numpy(np.concatenate(parts))
    model.load_state_dict(state)
    return model


def load_int8(folder: Path, layers: int = 12) -> MPNetReading:
    """Read the weights written by `training.model.save_int8`."""
    model = MPNetReading(layers)
    state = read_int8(folder)
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model
