"""Train the teacher: MPNet with three heads, from its base.

    python -m training.teach --out training/out/teacher

The rank head is held to the base reranker's scores (`training.score`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from training import mpnet
from training.loop import (
    Batch,
    Clock,
    Log,
    Master,
    Network,
    Rows,
    choose_device,
    compile_layers,
    mix_streams,
    read_loss,
    run,
    split_rows,
    train,
    verify_loss,
)
from training.model import RANK_SCALE
from training.pack import NO_ANSWER, RANK, READ, UNLABELLED, VERIFY, Packed
from training.rows import OUT, ROOT
from training.settings import read_toml


def parse_arguments(
    doc: str | None, settings: str, start: str, out: str
) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Read the command line of a training step, and its settings."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--settings", type=Path, default=ROOT / "training/settings" / settings)
    parser.add_argument("--rows", type=Path, default=OUT / "rows")
    parser.add_argument("--scores", type=Path, default=OUT / "scores.pt")
    parser.add_argument("--teacher", type=Path, default=OUT / "teacher/weights.pt")
    parser.add_argument("--start", type=Path, default=OUT / start, help="folder of int8 weights")
    parser.add_argument("--out", type=Path, default=OUT / out)
    parser.add_argument("--log", type=Path, default=OUT / "log")
    parser.add_argument("--seconds", type=float, help="instead of the settings' seconds")
    parser.add_argument("--seed", type=int, help="instead of the settings' seed")
    parser.add_argument("--eager", action="store_true", help="do not compile the layers")
    arguments = parser.parse_args()
    chosen = read_toml(arguments.settings)
    if arguments.seconds is not None:
        chosen["seconds"] = arguments.seconds
    if arguments.seed is not None:
        chosen["seed"] = arguments.seed
    chosen["compile"] = chosen["compile"] and not arguments.eager
    return arguments, chosen


def require(*paths: Path) -> None:
    """Fail at once if an input is missing, not after minutes."""
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path} is missing.")


def load_scores(path: Path, packed: Packed, device: torch.device) -> Tensor:
    """Read the base reranker's scores and make sure that they belong to these rows."""
    scores = torch.load(path, map_location=device)
    wanted = (packed.task == RANK) | ((packed.task == READ) & (packed.start != UNLABELLED))
    if len(scores) != len(wanted) or scores[torch.from_numpy(wanted).to(device)].isnan().any():
        raise SystemExit(f"{path} lacks scores of these rows: run training.score again.")
    return scores


def rank_loss(score: Tensor, target: Tensor) -> Tensor:
    """Squared distance to the base model's score, in its own scale."""
    return functional.mse_loss(score / RANK_SCALE, target / RANK_SCALE)


def teacher_loss(
    model: mpnet.MPNetReading, batch: Batch, scores: Tensor
) -> dict[str, tuple[float, Tensor]]:
    """Return the parts of a batch's loss, each with its weight."""
    spans, verdict, score = run(model, batch)
    if batch.task == VERIFY:
        return {"verify": (1.0, verify_loss(verdict, batch.label))}
    close = rank_loss(score, scores[batch.rows])
    if batch.task == RANK:
        return {"rank": (1.0, close)}
    return {"read": (1.0, read_loss(spans, batch)), "rank": (0.5, close)}


def area(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the area under the ROC curve."""
    both = np.concatenate([positive, negative])
    _, place, count = np.unique(both, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    wins = rank[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(wins / max(len(positive) * len(negative), 1))


def check_rows(
    model: Network, rows: Rows, check: dict[int, np.ndarray], scores: Tensor, tokens: int
) -> dict[str, float]:
    """Measure on rows kept from training; they share texts with rows that are trained on."""
    model.eval()
    found: dict[str, list[np.ndarray]] = {
        k: [] for k in ("null", "has", "hit", "sup", "true", "rank", "want")
    }
    with torch.no_grad():
        for task in (READ, VERIFY):
            for part in rows.list_batches(check[task][:6000], tokens):
                batch = rows.cut(part)
                spans, verdict, score = run(model, batch)
                if task == VERIFY:
                    found["sup"].append(verdict.softmax(1)[:, 0].cpu().numpy())
                    found["true"].append((batch.label == 0).cpu().numpy())
                    continue
                log = spans.log_softmax(1)
                null = log[:, 0].sum(1)
                outside = batch.types == 0
                best = log.masked_fill(outside[:, :, None], -1e4)
                found["null"].append((best.amax(1).sum(1) - null).cpu().numpy())
                found["has"].append(batch.start.cpu().numpy())
                start_hit = best[:, :, 0].argmax(1) == batch.start
                found["hit"].append(
                    (start_hit & (best[:, :, 1].argmax(1) == batch.end)).cpu().numpy()
                )
                found["rank"].append(score.cpu().numpy())
                found["want"].append(scores[batch.rows].cpu().numpy())
    f = {k: np.concatenate(v) for k, v in found.items()}
    has, none = f["has"] >= 0, f["has"] == NO_ANSWER
    return {
        "read_exact": float(f["hit"][has].mean()),
        "read_auroc": area(f["null"][has], f["null"][none]),
        "verify_auroc": area(f["sup"][f["true"]], f["sup"][~f["true"]]),
        "verify_accuracy": float(((f["sup"] > 0.5) == f["true"]).mean()),
        "rank_error": float(np.abs(f["rank"] - f["want"]).mean()),
    }


def main() -> None:
    arguments, settings = parse_arguments(__doc__, "teacher.toml", "mpnet", "teacher")
    clock = Clock(settings["steps"], settings["seconds"])
    require(arguments.rows, arguments.scores, arguments.start)
    torch.manual_seed(settings["seed"])
    device = choose_device()
    log = Log(arguments.log / "teacher.jsonl")
    model = mpnet.load_int8(arguments.start, settings["layers"]).to(device).train()
    packed = Packed.load(sorted(arguments.rows.glob("*.xz")), settings["longest"])
    rows = Rows(packed, device, settings["seed"])
    train_rows, check = split_rows(packed, settings["check_every"])
    scores = load_scores(arguments.scores, packed, device)
    log.write(rows={name: len(found) for name, found in train_rows.items()}, loaded=clock.spent())
    model.words.weight.requires_grad_(False)
    model.distances.weight.requires_grad_(False)
    model.dropout = settings["dropout"]
    compile_layers(model, settings["compile"])
    master = Master(model, settings["rate"], decay=settings["decay"])
    batches = mix_streams(rows, train_rows, settings, settings["seed"] + 7, clock)
    step = train(
        master, batches, lambda batch: teacher_loss(model, batch, scores), settings, clock, log
    )
    teacher = master.averaged()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.save(teacher.state_dict(), arguments.out / "weights.pt")
    log.write(step=step, spent=clock.spent())
    figures = check_rows(teacher, rows, check, scores, settings["tokens"])
    log.write(spent=clock.spent(), **figures)


if __name__ == "__main__":
    main()
