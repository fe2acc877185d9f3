"""Distil the teachers into a student of six layers, within a time limit.

Windows and packed teachers → weights of the student, and a log with the figures of every variant
on the tune halves. The halves that reports are made of are not in the packages at all.

    python -m training.embedder.train FOLDER OUT --deadline 400 --tries 20 --seed 1
"""

from __future__ import annotations

import argparse
import io
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from . import weights as w
from .cut import ROOT, flatten
from .model import Encoder, dump, load
from .start import read_built
from .teach import (
    Target,
    Windows,
    clock,
    cluster,
    embed,
    make_target,
    split_by_length,
    turn_towards,
)

START = ROOT / "training/out/all-minilm-l6-v2/model.onnx"  # by scripts/build_embedder.py
SECOND_LAYERS = (0, 2, 4, 6, 8, 10)  # the ones all-MiniLM-L6 was cut from
GROUP = 32  # windows of one subject that share a batch
BEGUN = time.time()


@dataclass(frozen=True)
class Recipe:
    """One way to train the student."""

    name: str
    start: str = "minilm"
    target: str = "both"
    rate: float = 5e-4
    batch: int = 768
    similarities: float = 1.0
    temperature: float = 0.05
    seed: int = 1


def say(*words: object) -> None:
    print(clock(BEGUN), *words, flush=True)


def show(scores: dict[str, float]) -> str:
    return json.dumps({name: round(value, 4) for name, value in scores.items()})


# ── Teachers ──────────────────────────────────────────────────────────────────────────────────


def read_teachers(folder: Path) -> tuple[w.Weights, w.Weights]:
    """Unpack gte-small, and bge-small, which is stored as its difference to gte."""
    pairs = [
        {
            **w.unpack((folder / f"{name}-tables.z").read_bytes()),
            **w.unpack((folder / f"{name}-layers.z").read_bytes()),
        }
        for name in ("gte", "bge-less-gte")
    ]
    gte, difference = pairs
    return gte, {name: gte[name] + difference[name] for name in gte}


def ask_teachers(teachers: list[Encoder], windows: Windows, kept: Path) -> list[Tensor]:
    """Give each teacher's vectors of all windows, from the file where they are kept."""
    if kept.is_file():
        return [one.to(windows.flat.device) for one in torch.load(kept)]
    found = [embed(teacher, windows) for teacher in teachers]
    torch.save([one.cpu() for one in found], kept)
    return found


# ── Tune halves ───────────────────────────────────────────────────────────────────────────────


@dataclass
class TuningSet:
    """Documents and questions of a tune half, on the device."""

    name: str
    documents: Windows
    questions: Windows
    relevant: list[set[int]]


def read_tuning(folder: Path, device: str) -> list[TuningSet]:
    found = []
    for one in json.loads((folder / "tuning.json").read_text()):
        places = {name: at for at, name in enumerate(one["documents"])}
        found.append(
            TuningSet(
                one["name"],
                Windows.load(*flatten(one["document_ids"]), device),
                Windows.load(*flatten(one["question_ids"]), device),
                [{places[name] for name in names if name in places} for names in one["relevant"]],
            )
        )
    return found


def ndcg(questions: Tensor, documents: Tensor, relevant: list[set[int]]) -> float:
    scores = questions.float() @ documents.float().T
    best = scores.topk(min(10, scores.shape[1])).indices.cpu().tolist()
    total = 0.0
    for ranking, wanted in zip(best, relevant, strict=True):
        gain = sum(1 / math.log2(at + 2) for at, place in enumerate(ranking) if place in wanted)
        total += gain / sum(1 / math.log2(at + 2) for at in range(min(10, len(wanted))))
    return total / len(relevant)


def evaluate(model: Encoder, sets: list[TuningSet]) -> dict[str, float]:
    """Measure nDCG@10 of dense search on every tune half."""
    scores = {
        one.name: ndcg(embed(model, one.questions), embed(model, one.documents), one.relevant)
        for one in sets
    }
    return {"mean": float(np.mean(list(scores.values()))), **scores}


def evaluate_target(
    target: Target, sets: list[TuningSet], asked: list[tuple[list[Tensor], list[Tensor]]]
) -> float:
    return float(
        np.mean(
            [
                ndcg(target(questions), target(documents), one.relevant)
                for one, (questions, documents) in zip(sets, asked, strict=True)
            ]
        )
    )


# ── Training ──────────────────────────────────────────────────────────────────────────────────


def draw_batches(groups: np.ndarray, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yield batches without end, each of a few subjects with many windows of each."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(len(groups))
        order = order[np.argsort(groups[order], kind="stable")]
        whole = len(order) // GROUP * GROUP
        pieces = order[:whole].reshape(-1, GROUP)[generator.permutation(whole // GROUP)]
        per_batch = size // GROUP
        for at in range(0, len(pieces) - per_batch + 1, per_batch):
            yield pieces[at : at + per_batch].reshape(-1)


def compare_similarities(student: Tensor, target: Tensor, temperature: float) -> Tensor:
    """KL of the student's softmax over its neighbours in the batch to the target's."""
    hidden = torch.eye(len(student), dtype=torch.bool, device=student.device)
    ours = (student @ student.T / temperature).masked_fill(hidden, -1e4)
    theirs = (target @ target.T / temperature).masked_fill(hidden, -1e4)
    return functional.kl_div(
        functional.log_softmax(ours, -1),
        functional.log_softmax(theirs, -1),
        log_target=True,
        reduction="batchmean",
    )


def train(
    recipe: Recipe, student: Encoder, windows: Windows, target: Tensor, groups: np.ndarray,
    seconds: float,
) -> Encoder:  # fmt: skip
    """Train until `seconds` are over; the learning rate falls to zero by then."""
    device = windows.flat.device
    torch.manual_seed(recipe.seed)
    student = student.to(device).train()
    optimizer = torch.optim.AdamW(
        student.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01,
        fused=device.type == "cuda",
    )  # fmt: skip
    begun, step, tokens, sums = time.time(), 0, 0, torch.zeros(2, device=device)
    size = min(recipe.batch, len(groups) // GROUP * GROUP)
    for places in draw_batches(groups, size, recipe.seed):
        if step % 8 == 0 and device.type == "cuda":
            torch.cuda.synchronize()  # or the clock would run ahead of the device
        spent = (time.time() - begun) / seconds
        if spent >= 1:
            break
        optimizer.param_groups[0]["lr"] = recipe.rate * min(1, (step + 1) / 100) * (1 - spent)
        parts = split_by_length(windows.lengths_here, places, 98_304)
        with torch.autocast(device.type, torch.bfloat16):
            vectors = torch.cat([student(*windows.batch(part)) for part in parts])
        wanted = target[torch.from_numpy(np.concatenate(parts)).to(device)].float()
        apart = 1 - (vectors * wanted).sum(1).mean()
        loss = apart
        if recipe.similarities:
            unlike = compare_similarities(vectors, wanted, recipe.temperature)
            loss = apart + recipe.similarities * unlike
            sums[1] += unlike.detach()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        sums[0] += apart.detach()
        step += 1
        tokens += int(windows.lengths_here[places].sum())
        if step % 200 == 0:
            mean = (sums / 200).tolist()
            say(f"  {recipe.name} step {step}: 1-cos {mean[0]:.4f}, KL {mean[1]:.4f}, "
                f"{tokens / (time.time() - begun) / 1e6:.2f} M tokens/s")  # fmt: skip
            sums.zero_()
    say(f"  {recipe.name}: {step} steps, {tokens / 1e6:.0f} M tokens, {time.time() - begun:.0f} s")
    return student.eval()


class Session:
    """Everything that the variants share: windows, teachers' vectors, targets, tune halves."""

    def __init__(self, folder: Path, device: str) -> None:
        self.device = device
        stored = np.load(folder / "windows.npz")
        self.windows = Windows.load(stored["flat"], stored["lengths"], device)
        self.sets = read_tuning(folder, device)
        say(len(self.windows), "windows,", len(stored["flat"]), "tokens")
        gte, bge = read_teachers(folder)
        self.starts = {
            "minilm": read_built(START),
            "gte": w.keep_layers(gte, SECOND_LAYERS),
        }
        teachers = [load(gte).to(device).eval(), load(bge, "cls").to(device).eval()]
        if device == "cuda":
            teachers = [one.half() for one in teachers]
        say("teachers read")
        self.vectors = ask_teachers(teachers, self.windows, folder / "teachers.pt")
        say("teachers asked")
        asked = [
            ([embed(one, part.questions) for one in teachers],
             [embed(one, part.documents) for one in teachers])
            for part in self.sets
        ]  # fmt: skip
        self.targets = self._targets(asked)

    def _targets(self, asked: list[Any]) -> dict[str, Target]:
        kinds = {
            "gte": ([1.0, 0.0], False, False), "bge": ([0.0, 1.0], False, False),
            "gte-centred": ([1.0, 0.0], True, True), "bge-centred": ([0.0, 1.0], True, True),
            "both-whole": ([0.5**0.5, 0.5**0.5], False, False),
            "both-centred-whole": ([0.5**0.5, 0.5**0.5], True, False),
            "both": ([0.5**0.5, 0.5**0.5], True, True),
            "both-gte": ([0.7**0.5, 0.3**0.5], True, True),
        }  # fmt: skip
        found = {}
        for name, (shares, centred, reduced) in kinds.items():
            target = make_target(name, self.vectors, shares, centred=centred, reduced=reduced)
            say(f"target {name}: tune {evaluate_target(target, self.sets, asked):.4f}")
            found[name] = target
        return found

    def run(self, recipe: Recipe, seconds: float) -> tuple[Encoder, dict[str, float]]:
        say(f"{recipe.name}: {asdict(recipe)}")
        student = load(self.starts[recipe.start]).to(self.device)
        target = replace(self.targets[recipe.target])
        few = Windows(
            self.windows.flat, self.windows.starts[:20_000], self.windows.lengths[:20_000],
            self.windows.lengths_here[:20_000],
        )  # fmt: skip
        turn_towards(target, self.vectors, embed(student, few))
        wanted = target(self.vectors)
        groups = cluster(wanted, min(2048, len(self.windows) // 64), recipe.seed)
        trained = train(recipe, student, self.windows, wanted, groups, seconds)
        scores = evaluate(trained, self.sets)
        say(f"{recipe.name}: tune {show(scores)}")
        return trained, scores


def choose(session: Session, base: Recipe, seconds: float) -> Recipe:
    """Change one thing at a time, and keep each change that helped on the tune halves."""
    for start, weights in session.starts.items():
        scores = evaluate(load(weights).to(session.device).eval(), session.sets)
        say(f"start {start}, untrained: tune {show(scores)}")
    changes: dict[str, dict[str, Any]] = {
        "start-gte": {"start": "gte"},
        "no-similarities": {"similarities": 0.0},
        "rate-1e-3": {"rate": 1e-3},
        "target-gte": {"target": "gte-centred"},
    }
    _, plain = session.run(base, seconds)
    best = base
    for name, change in changes.items():
        _, scores = session.run(replace(base, name=name, **change), seconds)
        if scores["mean"] > plain["mean"]:
            best = replace(best, **change)
    return best


def save(weights: w.Weights, out: Path, name: str) -> None:
    """Write the weights as fp16 in files of at most 15 MiB."""
    file = io.BytesIO()
    np.savez(file, **{key: value.astype(np.float16) for key, value in weights.items()})
    data = file.getvalue()
    for number, at in enumerate(range(0, len(data), 15 * 2**20)):
        (out / f"{name}.npz.{number}").write_bytes(data[at : at + 15 * 2**20])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--deadline", type=float, default=400, help="seconds for everything")
    parser.add_argument("--tries", type=float, default=0, help="seconds for each variant")
    parser.add_argument("--recipe", type=Path, help="a recipe chosen before (recipe.json)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    session = Session(options.folder, device)
    recipe = Recipe("base")
    if options.recipe:
        recipe = Recipe(**json.loads(options.recipe.read_text()))
    if options.tries:
        recipe = choose(session, recipe, options.tries)
    recipe = replace(recipe, name=f"student-{options.seed}", seed=options.seed)
    left = max(1.0, options.deadline - (time.time() - BEGUN) - 12)  # to measure and to write
    trained, scores = session.run(recipe, left)
    save(dump(trained), options.out, recipe.name)
    for folder in (options.out, options.folder):
        (folder / "recipe.json").write_text(json.dumps(asdict(recipe)))
    (options.out / "scores.json").write_text(json.dumps(scores))
    say("done")


if __name__ == "__main__":
    main()
