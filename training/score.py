"""Score the labelled rows with the base reranker: the target of the rank head.

    python -m training.score

Read rows without a label are only met when distilling, with the teacher's own score.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.loop import Clock, Log, Rows, cast, choose_device
from training.model import Reading, load_base
from training.pack import RANK, READ, UNLABELLED, Packed
from training.rows import OUT


def score_rows(model: Reading, rows: Rows, chosen: np.ndarray, tokens: int) -> Tensor:
    """Return the relevance of every chosen row; the others have none (NaN)."""
    scores = torch.full((len(rows.packed.task),), torch.nan, device=rows.device)
    model.eval()
    with torch.no_grad():
        for part in rows.list_batches(chosen, tokens):
            batch = rows.cut(part)
            scores[batch.rows] = model(batch.ids, batch.types, batch.mask)[2]
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--base", type=Path, default=OUT / "base/model.onnx")
    parser.add_argument("--rows", type=Path, default=OUT / "rows")
    parser.add_argument("--longest", type=int, default=320)
    parser.add_argument("--tokens", type=int, default=160_000, help="padded tokens a batch")
    parser.add_argument("--most", type=int, help="score only so many rows")
    parser.add_argument("--out", type=Path, default=OUT / "scores.pt")
    parser.add_argument("--log", type=Path, default=OUT / "log")
    options = parser.parse_args()
    clock = Clock(1, 1)
    log = Log(options.log / "score.jsonl")
    model = cast(load_base(options.base), choose_device())
    packed = Packed.load(sorted(options.rows.glob("*.xz")), options.longest)
    rows = Rows(packed, choose_device(), 1)
    log.write(loaded=clock.spent())
    pairs = np.flatnonzero(
        (packed.task == RANK) | ((packed.task == READ) & (packed.start != UNLABELLED))
    )[: options.most]
    scores = score_rows(model, rows, pairs, options.tokens)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    torch.save(scores.cpu(), options.out)
    mean = scores[~scores.isnan()].mean().item()
    log.write(rows=len(pairs), mean=mean, spent=clock.spent())


if __name__ == "__main__":
    main()
