"""Train the 12-layer teacher: one trunk, three heads, from the base reranker.

    python -m training.teach --rows training/data/rows --out training/out/teacher

The rank head is held to the base model's own scores, which are computed first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from training.loop import (
    Batch,
    Clock,
    Log,
    Master,
    Rows,
    cast,
    choose_device,
    compile_layers,
    mix_streams,
    read_loss,
    split_rows,
    verify_loss,
)
from training.model import RANK_SCALE, Reading, load_base, load_int8, save_int8
from training.pack import NO_ANSWER, RANK, READ, UNLABELLED, VERIFY, Packed
from training.rows import OUT, ROOT
from training.settings import read_toml


def parse_arguments(doc: str | None, settings: str) -> argparse.Namespace:
    """Read the command line of a training step."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--settings", type=Path, default=ROOT / "training/settings" / settings)
    parser.add_argument("--base", type=Path, default=OUT / "base/model.onnx")
    parser.add_argument("--rows", type=Path, default=OUT / "rows")
    parser.add_argument("--teacher", type=Path, default=OUT / "teacher")
    parser.add_argument("--out", type=Path, default=OUT / "teacher")
    parser.add_argument("--log", type=Path, default=OUT / "log")
    parser.add_argument("--start", type=Path, help="folder of int8 weights to start from")
    parser.add_argument("--keep", type=Path, help="folder of int8 weights whose verdicts are kept")
    parser.add_argument("--scores", type=Path, help="relevance targets of the base, if computed")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--seed", type=int, help="instead of the settings' seed")
    return parser.parse_args()


def score_rows(model: Reading, rows: Rows, chosen: np.ndarray, tokens: int) -> Tensor:
    """Compute the base model's relevance score of every chosen row."""
    scores = torch.full((len(rows.packed.task),), torch.nan, device=rows.device)
    model.eval()
    with torch.no_grad():
        for part in rows.list_batches(chosen, tokens):
            batch = rows.cut(part)
            scores[batch.rows] = model(batch.ids, batch.types, batch.mask)[2]
    return scores


def rank_loss(score: Tensor, target: Tensor) -> Tensor:
    """Squared distance to the base model's score, in its own scale."""
    return functional.mse_loss(score / RANK_SCALE, target / RANK_SCALE)


def teacher_loss(model: Reading, batch: Batch, scores: Tensor) -> Tensor:
    """Return the loss of one batch by its task."""
    spans, verdict, score, _ = model(batch.ids, batch.types, batch.mask)
    if batch.task == VERIFY:
        return verify_loss(verdict, batch.label)
    close = rank_loss(score, scores[batch.rows])
    return close if batch.task == RANK else read_loss(spans, batch) + 0.5 * close


def area(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the area under the ROC curve."""
    both = np.concatenate([positive, negative])
    _, place, count = np.unique(both, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    wins = rank[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(wins / max(len(positive) * len(negative), 1))


def check_rows(
    model: Reading, rows: Rows, check: dict[int, np.ndarray], scores: Tensor, tokens: int
) -> dict[str, float]:
    """Print quick figures on rows kept for checking; they share texts with training rows."""
    model.eval()
    found: dict[str, list[np.ndarray]] = {
        k: [] for k in ("null", "has", "hit", "sup", "true", "rank", "want")
    }
    with torch.no_grad():
        for task in (READ, VERIFY):
            for part in rows.list_batches(check[task][:6000], tokens):
                batch = rows.cut(part)
                spans, verdict, score, _ = model(batch.ids, batch.types, batch.mask)
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


def get_scores(arguments: argparse.Namespace, packed: Packed, rows: Rows, tokens: int) -> Tensor:
    """Compute the base model's relevance scores, or read them, and keep them beside the weights."""
    if arguments.scores:
        scores = torch.load(arguments.scores, map_location=rows.device)
    else:
        # Read rows without a label are only met when distilling, with the teacher's own score.
        pairs = np.flatnonzero(
            (packed.task == RANK) | ((packed.task == READ) & (packed.start != UNLABELLED))
        )
        scores = score_rows(cast(load_base(arguments.base), rows.device), rows, pairs, tokens)
    torch.save(scores.cpu(), arguments.out / "base-scores.pt")
    return scores


def main() -> None:
    arguments = parse_arguments(__doc__, "teacher.toml")
    settings = read_toml(arguments.settings)
    seed = arguments.seed if arguments.seed is not None else settings["seed"]
    clock = Clock(settings["steps"], arguments.seconds or settings["seconds"])
    torch.manual_seed(seed)
    device = choose_device()
    log = Log(arguments.log / "teacher.jsonl")
    packed = Packed.load(sorted(arguments.rows.glob("*.xz")), settings["longest"])
    rows = Rows(packed, device, seed)
    train, check = split_rows(packed, settings["check_every"])
    log.write(
        rows={k: len(v) for k, v in train.items()},
        tokens=int(packed.length.sum()),
        loaded=clock.spent(),
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    scores = get_scores(arguments, packed, rows, 4 * settings["tokens"])
    log.write(scored=clock.spent(), mean=scores[~scores.isnan()].mean().item())
    if arguments.seconds == 0:
        return
    begin = load_int8(arguments.start, 12) if arguments.start else load_base(arguments.base)
    model = cast(begin, device)
    model.words.weight.requires_grad_(not settings["keep_words"])
    compile_layers(model, settings["compile"])
    model.train()
    model.dropout = settings["dropout"]
    master = Master(model, settings["rate"], decay=settings["decay"])
    batches = mix_streams(rows, train, settings, seed + 7, clock)
    step, running = 0, {}
    while (progress := clock.progress(step)) < 1:
        batch = next(batches)
        loss = teacher_loss(model, batch, scores)
        loss.backward()
        master.step(progress)
        running.setdefault(batch.task, []).append(loss.detach())
        step += 1
        if step % settings["log_every"] == 0:
            means = {f"loss{k}": torch.stack(v).mean().item() for k, v in running.items()}
            log.write(step=step, progress=progress, spent=clock.spent(), **means)
            running = {}
    teacher = master.averaged()
    torch.save(teacher.state_dict(), arguments.out / "weights.pt")
    save_int8(teacher, arguments.out)
    log.write(
        step=step,
        spent=clock.spent(),
        **check_rows(cast(teacher, device), rows, check, scores, settings["tokens"]),
    )


if __name__ == "__main__":
    main()
