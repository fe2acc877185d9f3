"""BERT as an embedder in torch: token ids → one unit vector per text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .weights import HEADS, HIDDEN, Weights, count_layers


class Layer(nn.Module):
    """One encoder layer: attention, then the feed-forward part, each with its norm after it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            self.qkv(x).view(batch, length, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        )
        y = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        y = y.transpose(1, 2).reshape(batch, length, HIDDEN)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """BERT with pooling over all tokens (`mean`) or the first one (`cls`) and an L2 norm."""

    def __init__(self, layers: int, pooling: str = "mean") -> None:
        super().__init__()
        self.words = nn.Embedding(30522, HIDDEN)
        self.positions = nn.Embedding(512, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.pooling = pooling

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        here = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.positions(here) + self.types.weight[0])
        attend = mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, attend)
        return x

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.hidden(ids, mask)
        if self.pooling == "cls":
            return functional.normalize(x[:, 0].float(), dim=-1)
        weight = mask[..., None].to(x.dtype)
        return functional.normalize((x * weight).sum(1).float(), dim=-1)


NAMES = {
    "out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}
QKV = tuple(f"attention.self.{part}" for part in ("query", "key", "value"))


def load(weights: Weights, pooling: str = "mean") -> Encoder:
    """Build the encoder that these weights (under BERT's names) describe."""
    layers = count_layers(weights)
    state = {
        "words.weight": weights["embeddings.word_embeddings.weight"],
        "positions.weight": weights["embeddings.position_embeddings.weight"],
        "types.weight": weights["embeddings.token_type_embeddings.weight"],
        "norm.weight": weights["embeddings.LayerNorm.weight"],
        "norm.bias": weights["embeddings.LayerNorm.bias"],
    }
    tensors = {name: torch.tensor(value) for name, value in state.items()}
    for layer in range(layers):
        full = f"encoder.layer.{layer}"
        for kind in ("weight", "bias"):
            tensors[f"layers.{layer}.qkv.{kind}"] = torch.cat(
                [torch.tensor(weights[f"{full}.{name}.{kind}"]) for name in QKV]
            )
            for ours, theirs in NAMES.items():
                tensors[f"layers.{layer}.{ours}.{kind}"] = torch.tensor(
                    weights[f"{full}.{theirs}.{kind}"]
                )
    encoder = Encoder(layers, pooling)
    encoder.load_state_dict(tensors)
    return encoder


def dump(encoder: Encoder) -> Weights:
    """Write the encoder's weights under BERT's names, fp32."""
    state = {name: value.detach().float().cpu() for name, value in encoder.state_dict().items()}
    weights: Weights = {
        "embeddings.word_embeddings.weight": state["words.weight"].numpy(),
        "embeddings.position_embeddings.weight": state["positions.weight"].numpy(),
        "embeddings.token_type_embeddings.weight": state["types.weight"].numpy(),
        "embeddings.LayerNorm.weight": state["norm.weight"].numpy(),
        "embeddings.LayerNorm.bias": state["norm.bias"].numpy(),
    }
    for layer in range(len(encoder.layers)):
        full = f"encoder.layer.{layer}"
        for kind in ("weight", "bias"):
            parts = state[f"layers.{layer}.qkv.{kind}"].chunk(3)
            for name, part in zip(QKV, parts, strict=True):
                weights[f"{full}.{name}.{kind}"] = part.numpy()
            for ours, theirs in NAMES.items():
                weights[f"{full}.{theirs}.{kind}"] = state[f"layers.{layer}.{ours}.{kind}"].numpy()
    return weights
