"""Measure training steps on this machine, plain and compiled, with random rows.

python -m training.speed
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from training.distil import distil_loss
from training.loop import Batch, Master, add_parts, cast, choose_device, compile_layers
from training.model import Reading
from training.mpnet import MPNetReading
from training.pack import READ
from training.rows import ROOT
from training.settings import read_toml
from training.teach import teacher_loss


def make_batch(tokens: int, width: int, device: torch.device) -> Batch:
    """Make a batch of random tokens."""
    count = tokens // width
    ids = torch.randint(1000, 30000, (count, width), device=device)
    mask = torch.ones_like(ids).bool()
    mask[: count // 2, width - 5 :] = False
    types = torch.zeros_like(ids)
    types[:, 12:] = 1
    place = torch.full((count,), 20, device=device)
    return Batch(READ, torch.zeros_like(place), ids, types, mask, place, place + 2, place)


def measure(
    master: Master, loss_of: Callable[[Batch], dict[str, Any]], tokens: int, repeats: int
) -> float:
    """Return the milliseconds of a step over batches of several widths, warmed up before."""
    device = master.weights[0].device
    batches = [make_batch(tokens, width, device) for width in (64, 128, 192, 256, 320)]
    for repeat in range(1 + repeats):
        for batch in batches:
            add_parts(loss_of(batch)).backward()
            master.step(0.5)
        if repeat == 0:
            float(master.weights[0].sum())  # wait for the GPU
            begun = time.perf_counter()
    float(master.weights[0].sum())
    return (time.perf_counter() - begun) / (repeats * len(batches)) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, help="instead of the settings' padded tokens")
    parser.add_argument("--repeats", type=int, default=6)
    options = parser.parse_args()
    device = choose_device()
    scores = torch.zeros(1, device=device)
    for name in ("teacher", "distil"):
        settings = read_toml(ROOT / f"training/settings/{name}.toml")
        tokens = options.tokens or settings["tokens"]
        for compiled in (False, True):
            torch.manual_seed(0)
            teacher = MPNetReading(options.layers)
            model: Any = teacher if name == "teacher" else Reading(options.layers)
            model = model.to(device).train()
            model.dropout = settings["dropout"]
            model.words.weight.requires_grad_(False)
            if name == "distil":
                teacher = cast(teacher, device).eval()
                compile_layers(teacher, compiled)
            compile_layers(model, compiled)
            master = Master(model, 1e-5)

            def loss_of(batch: Batch, model: Any = model, judge: Any = teacher) -> dict[str, Any]:
                if isinstance(model, MPNetReading):
                    return teacher_loss(model, batch, scores)
                return distil_loss(model, judge, batch, scores, settings["weight"])  # noqa: B023

            begun = time.perf_counter()
            spent = measure(master, loss_of, tokens, options.repeats)
            whole = time.perf_counter() - begun
            print(f"{name}, {'compiled' if compiled else 'plain'}: {spent:.1f} ms a step of "
                  f"{tokens} tokens ({whole:.0f} s in all)", flush=True)  # fmt: skip
    if device.type == "cuda":
        print(f"memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
