"""Training loop parts: rows on the device, batches of equal length, optimiser, schedule, average.

Weights are kept in float32; products run in bfloat16 (autocast). The schedule follows the steps of
the settings or the clock, whichever is further, so a run ends within its time.
"""

from __future__ import annotations

import importlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.model import Reading
from training.mpnet import MPNetReading
from training.pack import (
    NO_ANSWER,
    NO_SPAN,
    NOT_SUPPORTED,
    RANK,
    READ,
    UNLABELLED,
    VERIFY,
    Packed,
)

Array = np.ndarray[Any, Any]
Network = Reading | MPNetReading
Module = TypeVar("Module", bound=nn.Module)
# Streams of their own: rows that only the teacher judges, and those written by hand.
LOOSE, OPEN, WRITTEN_READ, WRITTEN_VERIFY = 3, 4, 5, 6
STREAMS = {
    "read": READ, "verify": VERIFY, "rank": RANK, "unlabelled": LOOSE, "open": OPEN,
    "written_read": WRITTEN_READ, "written_verify": WRITTEN_VERIFY,
}  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Hold rows of similar length, padded, on the device."""

    task: int
    rows: Tensor
    ids: Tensor
    types: Tensor
    mask: Tensor
    start: Tensor
    end: Tensor
    label: Tensor
    judged: bool = True


class Rows:
    """Keep all rows on the device and cut them into batches."""

    def __init__(self, packed: Packed, device: torch.device, seed: int) -> None:
        self.packed, self.device = packed, device
        self.rng = np.random.default_rng(seed)
        self.flat = torch.from_numpy(packed.ids.astype(np.int32)).to(device)
        self.fields = {
            name: torch.from_numpy(getattr(packed, name).astype(np.int64)).to(device)
            for name in ("begin", "length", "first_length", "start", "end", "label")
        }

    def cut(self, rows: Array) -> Batch:
        """Gather rows into one batch."""
        at = self.send(rows)
        get = {name: values[at] for name, values in self.fields.items()}
        width = int(self.packed.length[rows].max())
        width = (width + 15) // 16 * 16
        places = torch.arange(width, device=self.device)
        mask = places[None] < get["length"][:, None]
        index = (get["begin"][:, None] + places[None]).clamp(max=len(self.flat) - 1)
        ids = self.flat[index].long().masked_fill(~mask, 0)
        types = ((places[None] >= get["first_length"][:, None]) & mask).long()
        task = int(self.packed.task[rows[0]])
        judged = bool(self.packed.label[rows[0]] >= 0)
        return Batch(task, at, ids, types, mask, get["start"], get["end"], get["label"], judged)

    def send(self, rows: Array) -> Tensor:
        """Copy row numbers without waiting for the GPU: a plain copy made a step 47 ms, not 36."""
        numbers = torch.from_numpy(rows)
        if self.device.type != "cuda":
            return numbers.to(self.device)
        return numbers.pin_memory().to(self.device, non_blocking=True)

    def list_batches(self, chosen: Array, tokens: int) -> list[Array]:
        """Shuffle rows, sort blocks by length and cut them at `tokens` padded tokens."""
        order = self.rng.permutation(chosen)
        batches = []
        for begin in range(0, len(order), 12_000):
            block = order[begin : begin + 12_000]
            block = block[np.argsort(self.packed.length[block], kind="stable")]
            at = 0
            while at < len(block):
                width = 0
                end = at
                while end < len(block):
                    width = max(width, (int(self.packed.length[block[end]]) + 15) // 16 * 16)
                    if width * (end + 1 - at) > tokens and end > at:
                        break
                    end += 1
                batches.append(block[at:end])
                at = end
        return [batches[i] for i in self.rng.permutation(len(batches))]

    def endless(self, chosen: Array, tokens: int) -> Iterator[Batch]:
        """Yield batches for ever, reshuffled each pass."""
        while True:
            for rows in self.list_batches(chosen, tokens):
                yield self.cut(rows)


class Master:
    """Keep float32 weights of a network beside its own; step, schedule, average."""

    def __init__(
        self, model: Network, rate: float, *, decay: float = 0.01, average: float = 0.999
    ) -> None:
        self.model = model
        self.names = [name for name, _ in model.named_parameters()]
        self.live = list(model.parameters())
        self.weights = [p.detach().float().clone() for p in self.live]
        self.grads = [torch.zeros_like(w) for w in self.weights]
        self.mean = [w.clone() for w in self.weights]
        self.rate, self.average, self.count = rate, average, 0
        plain = [w for w in self.weights if w.ndim == 1]
        matrices = [w for w in self.weights if w.ndim > 1]
        fused = self.weights[0].is_cuda
        self.optimiser = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}],
            lr=rate,
            betas=(0.9, 0.98),
            eps=1e-6,
            fused=fused,
        )

    @torch.no_grad()
    def step(self, progress: float, warm: float = 0.04) -> None:
        """Take one step at a rate that rises for `warm` of the run, then falls to zero."""
        factor = min(progress / warm, 1.0) if progress < warm else (1 - progress) / (1 - warm)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * max(factor, 1e-3)
        used = [i for i, live in enumerate(self.live) if live.grad is not None]
        torch._foreach_copy_([self.grads[i] for i in used], [self.live[i].grad for i in used])
        for weight, live in zip(self.weights, self.live, strict=True):
            weight.grad = live.grad = None
        for i in used:
            self.weights[i].grad = self.grads[i]
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=self.weights[0].is_cuda)
        self.optimiser.step()
        self.count += 1
        share = 1 - min(self.average, (1 + self.count) / (10 + self.count))
        torch._foreach_lerp_(self.mean, self.weights, share)
        torch._foreach_copy_(self.live, self.weights)

    def averaged(self) -> Network:
        """Return a float32 copy of the network, not compiled, with the averaged weights."""
        copy = type(self.model)(len(self.model.layers)).to(self.weights[0].device)
        copy.load_state_dict(dict(zip(self.names, self.mean, strict=True)))
        return copy


class Clock:
    """Say how far a run is: by steps or by time, whichever is further."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds, self.begun = steps, seconds, time.monotonic()

    def spent(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self.begun

    def restart(self) -> None:
        """Count from now on, over the time that loading and compiling left."""
        self.seconds, self.begun = self.seconds - self.spent(), time.monotonic()

    def progress(self, step: int) -> float:
        """Return a number from 0 to 1."""
        return max(step / self.steps, self.spent() / self.seconds)


class Log:
    """Write figures to a file and to the screen."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a", encoding="utf-8")

    def write(self, **figures: Any) -> None:
        """Write one line."""
        shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}
        line = json.dumps(shown)
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


def read_loss(spans: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of start and end; no answer is [CLS]; rows without a span only push it down."""
    known = (batch.start >= 0) | (batch.start == NO_ANSWER)
    loss = spans.new_zeros(())
    for part, target in ((0, batch.start), (1, batch.end)):
        logits = functional.log_softmax(spans[:, :, part], dim=1)
        wanted = target.clamp(min=0)
        hard = -logits.gather(1, wanted[:, None])[:, 0]
        some = -torch.log1p(-logits[:, 0].exp().clamp(max=0.9999))
        loss = loss + (hard * known + some * (batch.start == NO_SPAN)).sum()
    return loss / (2 * (known | (batch.start == NO_SPAN)).sum().clamp(min=1))


def verify_loss(verdict: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy; rows that are "not supported" only push "supported" down."""
    logits = functional.log_softmax(verdict, dim=1)
    hard = -logits.gather(1, label.clamp(0, 2)[:, None])[:, 0]
    against = -torch.logsumexp(logits[:, 1:], dim=1)
    return torch.where(label == NOT_SUPPORTED, against, hard).mean()


def choose_device() -> torch.device:
    """Use the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def compile_layers(model: Network, wanted: bool) -> None:
    """Compile each layer; all layers share the code. What does not compile runs as it is."""
    if wanted and torch.cuda.is_available():
        importlib.import_module("torch._dynamo").config.suppress_errors = True
        for layer in model.layers:
            layer.compile(dynamic=True)


def cast(model: Module, device: torch.device) -> Module:
    """Move a network that only judges to the device, in bfloat16 on a GPU."""
    return model.to(device).to(torch.bfloat16 if device.type == "cuda" else torch.float32)


def run(model: Network, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Run a network with float32 weights on a batch, with products in bfloat16."""
    with torch.autocast(batch.ids.device.type, torch.bfloat16):
        spans, verdict, score = model(batch.ids, batch.types, batch.mask)
    return spans, verdict, score


def add_parts(parts: dict[str, tuple[float, Tensor]]) -> Tensor:
    """Return the loss, the sum of its weighted parts."""
    return torch.stack([weight * value for weight, value in parts.values()]).sum()


def train(
    master: Master,
    batches: Iterator[Batch],
    measure: Callable[[Batch], dict[str, tuple[float, Tensor]]],
    settings: dict[str, Any],
    clock: Clock,
    log: Log,
) -> int:
    """Take steps until the clock ends the run; `measure` gives the parts of a loss by weight."""
    for _ in range(4):  # layers are compiled at the first batches: that is no part of the schedule
        add_parts(measure(next(batches))).backward()
    master.model.zero_grad(set_to_none=True)
    log.write(ready=clock.spent())
    clock.restart()
    step, running = 0, {}
    while (progress := clock.progress(step)) < 1:
        parts = measure(next(batches))
        add_parts(parts).backward()
        master.step(progress, settings["warm"])
        for name, (_, value) in parts.items():
            running.setdefault(name, []).append(value.detach())
        step += 1
        if step % settings["log_every"] == 0:
            means = {name: torch.stack(values).mean().item() for name, values in running.items()}
            log.write(step=step, progress=progress, spent=clock.spent(), **means)
            running = {}
    return step


def split_rows(packed: Packed, held: int) -> tuple[dict[int, Array], dict[int, Array]]:
    """Keep the last of every `held` rows of a task for checking; the rest is for training."""
    train, check = {}, {}
    for task in (READ, VERIFY, RANK):
        rows = np.flatnonzero(packed.task == task)
        if task == READ:
            train[LOOSE] = rows[packed.start[rows] == UNLABELLED]
            rows = rows[packed.start[rows] != UNLABELLED]
        if task == VERIFY:
            train[OPEN] = rows[packed.label[rows] < 0]
            rows = rows[packed.label[rows] >= 0]
        last = np.arange(len(rows)) % held == held - 1
        train[task], check[task] = rows[~last], rows[last]
    for task, stream in ((READ, WRITTEN_READ), (VERIFY, WRITTEN_VERIFY)):
        written = packed.written[train[task]]
        train[stream], train[task] = train[task][written], train[task][~written]
    return train, check


def mix_streams(
    rows: Rows, train: dict[int, Array], settings: dict[str, Any], seed: int, clock: Clock
) -> Iterator[Batch]:
    """Yield batches of all streams, each as often as its share says.

    From `late_from` of the run on the shares of `[late]` hold: the best rows come last, when the
    rate falls.
    """
    names = list(settings["share"])
    tokens = settings["tokens"]
    streams = {name: rows.endless(train[STREAMS[name]], tokens) for name in names}
    choice = np.random.default_rng(seed)
    for step in itertools.count():
        late = clock.progress(step) >= settings["late_from"]
        share = settings["late" if late else "share"]
        yield next(streams[names[int(choice.choice(len(names), p=[share[n] for n in names]))]])
