"""The teachers' side: token windows → the vectors that the student shall give.

Two teachers give two vectors. Each is freed of its mean (all texts of gte-small lie within a narrow
cone), both are put side by side, and the first 384 principal axes are kept: their products are the
mean of the two teachers' similarities. Last, the axes are turned towards the student's start.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .model import Encoder


@dataclass
class Windows:
    """Token windows on the device, cut out of one flat array."""

    flat: Tensor
    starts: Tensor
    lengths: Tensor
    lengths_here: np.ndarray  # the same on the host, to choose a width without waiting

    @classmethod
    def load(cls, flat: np.ndarray, lengths: np.ndarray, device: str) -> Windows:
        starts = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)])
        return cls(
            torch.from_numpy(flat.astype(np.int32)).to(device),
            torch.from_numpy(starts).to(device),
            torch.from_numpy(lengths.astype(np.int64)).to(device),
            lengths.astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.lengths_here)

    def batch(self, places: np.ndarray) -> tuple[Tensor, Tensor]:
        """Give ids and mask of some windows, as wide as the longest of them."""
        width = -(-int(self.lengths_here[places].max()) // 16) * 16
        at = torch.from_numpy(places).to(self.flat.device, non_blocking=True)
        columns = torch.arange(width, device=self.flat.device)
        mask = columns < self.lengths[at][:, None]
        index = (self.starts[at][:, None] + columns).clamp_(max=len(self.flat) - 1)
        return self.flat[index].masked_fill_(~mask, 0), mask


def split_by_length(lengths: np.ndarray, places: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Sort by length and cut into parts of at most `tokens`, padding counted."""
    order = places[np.argsort(lengths[places], kind="stable")]
    parts, begin = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end + 1 - begin) * (lengths[order[end]] + 15) > tokens:
            parts.append(order[begin:end])
            begin = end
    return parts


@torch.inference_mode()
def embed(model: Encoder, windows: Windows, tokens: int = 262_144) -> Tensor:
    """Give the unit vectors of all windows, fp16."""
    device = windows.flat.device
    mixed = device.type == "cuda" and model.words.weight.dtype == torch.float32
    vectors = torch.empty(len(windows), 384, dtype=torch.float16, device=device)
    for part in split_by_length(windows.lengths_here, np.arange(len(windows)), tokens):
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
            found = model(*windows.batch(part))
        vectors[torch.from_numpy(part).to(device)] = found.half()
    return vectors


@dataclass
class Target:
    """A linear map of the teachers' vectors, side by side, to the target space."""

    name: str
    means: list[Tensor]
    shares: list[float]
    axes: Tensor | None = None

    def side_by_side(self, vectors: list[Tensor]) -> Tensor:
        parts = [
            functional.normalize(one.float() - mean, dim=-1) * share
            for one, mean, share in zip(vectors, self.means, self.shares, strict=True)
            if share
        ]
        return torch.cat(parts, -1)

    def __call__(self, vectors: list[Tensor]) -> Tensor:
        rows = [
            self._map([one[at : at + 65_536] for one in vectors])
            for at in range(0, len(vectors[0]), 65_536)
        ]
        return torch.cat(rows)

    def _map(self, vectors: list[Tensor]) -> Tensor:
        joined = self.side_by_side(vectors)
        return functional.normalize(
            joined if self.axes is None else joined @ self.axes, dim=-1
        ).half()


def make_target(
    name: str, vectors: list[Tensor], shares: list[float], *, centred: bool, reduced: bool
) -> Target:
    """Fit means and principal axes on a sample of the windows."""
    few = [one[:200_000].float() for one in vectors]
    means = [one.mean(0) if centred else torch.zeros_like(one[0]) for one in few]
    target = Target(name, means, shares)
    if reduced:
        joined = target.side_by_side(few)
        _, axes = torch.linalg.eigh((joined.T @ joined).double())
        target.axes = axes[:, -384:].float()
    return target


def turn_towards(target: Target, vectors: list[Tensor], student: Tensor) -> None:
    """Turn the target's axes so that they lie nearest to the student's vectors (Procrustes)."""
    few = [one[: len(student)] for one in vectors]
    wanted = target(few).float()
    centred = functional.normalize(student.float() - student.float().mean(0), dim=-1)
    left, _, right = torch.linalg.svd(wanted.T @ centred)
    rotation = left @ right
    if target.axes is None:
        target.axes = torch.eye(wanted.shape[1], device=wanted.device)
    target.axes = target.axes @ rotation


def cluster(vectors: Tensor, count: int, seed: int) -> np.ndarray:
    """Group the windows by subject (k-means on a sample), so that a batch can hold neighbours."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    sample = vectors[:100_000].float()
    centres = sample[torch.randperm(len(sample), generator=generator)[:count].to(vectors.device)]
    for _ in range(6):
        nearest = (sample @ centres.T).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, sample)
        centres = functional.normalize(sums + 1e-6 * centres, dim=-1)
    found = [
        (vectors[at : at + 65_536].float() @ centres.T).argmax(1).cpu()
        for at in range(0, len(vectors), 65_536)
    ]
    return torch.cat(found).numpy()


def clock(begun: float) -> str:
    return f"[{time.time() - begun:6.1f} s]"
