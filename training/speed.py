"""Measure training steps on this machine, plain and compiled, with random rows.

python -m training.speed
"""

from __future__ import annotations

import time

import torch

from training.loop import Batch, Master, cast, choose_device, compile_layers, read_loss
from training.model import Reading


def make_batch(rows: int, width: int, device: torch.device) -> Batch:
    """Make a batch of random tokens."""
    ids = torch.randint(1000, 30000, (rows, width), device=device)
    mask = torch.ones_like(ids).bool()
    mask[: rows // 2, width - 5 :] = False
    types = torch.zeros_like(ids)
    types[:, 12:] = 1
    place = torch.full((rows,), 20, device=device)
    return Batch(0, place, ids, types, mask, place, place + 2, place)


def main() -> None:
    device = choose_device()
    shapes = ((96, 256), (76, 320), (384, 64), (192, 128)) if device.type == "cuda" else ((2, 32),)
    for compiled in (False, True):
        torch.manual_seed(0)
        model = cast(Reading(12), device).train()
        model.dropout = 0.1
        compile_layers(model, compiled)
        master = Master(model, 1e-4)
        for rows, width in (*shapes, *shapes):
            batch = make_batch(rows, width, device)
            begun = time.perf_counter()
            for _ in range(12 if device.type == "cuda" else 1):
                loss = read_loss(model(batch.ids, batch.types, batch.mask)[0], batch)
                loss.backward()
                master.step(0.5)
            value = loss.item()
            spent = time.perf_counter() - begun
            print(f"compiled {compiled} rows {rows} width {width}: {spent:.2f} s for 12 steps, "
                  f"loss {value:.3f}", flush=True)  # fmt: skip
    if device.type == "cuda":
        print(f"memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
