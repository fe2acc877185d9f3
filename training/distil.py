"""Distil the teacher into the network that is shipped.

    python -m training.distil --start training/out/shipped --out training/out/student

The student starts from the weights of the version before, and its words stay as they are. Each
batch is judged by the teacher: the student follows its start and end distributions and its verdict,
the base reranker's score, and a little of the labels themselves. Rows without a label count fully.
Its weights are averaged over the end of the run.
"""

from __future__ import annotations

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
    run,
    split_rows,
    train,
    verify_loss,
)
from training.model import Reading, load_int8, save_int8
from training.mpnet import MPNetReading
from training.pack import RANK, VERIFY, Packed
from training.teach import check_rows, load_scores, parse_arguments, rank_loss, require


def follow_spans(student: Tensor, teacher: Tensor) -> Tensor:
    """Kullback-Leibler divergence of start and end, mean over rows."""
    loss = student.new_zeros(())
    for part in (0, 1):
        mine = functional.log_softmax(student[:, :, part], dim=1)
        wanted = functional.log_softmax(teacher[:, :, part], dim=1)
        loss = loss + (wanted.exp() * (wanted - mine)).sum(1).mean()
    return loss


def follow_verdict(student: Tensor, teacher: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the verdict, mean over rows."""
    return functional.kl_div(
        functional.log_softmax(student, 1),
        functional.log_softmax(teacher, 1),
        reduction="batchmean",
        log_target=True,
    )


def distil_loss(
    student: Reading, teacher: MPNetReading, batch: Batch, scores: Tensor, weights: dict[str, float]
) -> dict[str, tuple[float, Tensor]]:
    """Return the parts of a batch's loss, each with its weight."""
    with torch.no_grad():
        t_spans, t_verdict, t_score = teacher(batch.ids, batch.types, batch.mask)
    spans, verdict, score = run(student, batch)
    if batch.task == VERIFY:
        parts = {"verify": follow_verdict(verdict, t_verdict)}
        if batch.judged:
            parts["label"] = verify_loss(verdict, batch.label)
    else:
        target = scores[batch.rows]
        parts = {
            "rank": rank_loss(score, torch.where(target.isnan(), t_score, target)),
            "read": follow_spans(spans, t_spans),
        }
        if batch.task != RANK:
            parts["label_read"] = read_loss(spans, batch)
    return {name: (weights[name], value) for name, value in parts.items()}


def main() -> None:
    arguments, settings = parse_arguments(__doc__, "distil.toml", "shipped", "student")
    clock = Clock(settings["steps"], settings["seconds"])
    require(arguments.rows, arguments.scores, arguments.start, arguments.teacher)
    torch.manual_seed(settings["seed"])
    device = choose_device()
    log = Log(arguments.log / "distil.jsonl")
    weights = torch.load(arguments.teacher, map_location="cpu")
    teacher = MPNetReading(sum(name.endswith("qkv.bias") for name in weights))
    teacher.load_state_dict(weights)
    teacher = cast(teacher, device).eval()
    student = load_int8(arguments.start, settings["layers"]).to(device)
    packed = Packed.load(sorted(arguments.rows.glob("*.xz")), settings["longest"])
    rows = Rows(packed, device, settings["seed"])
    train_rows, check = split_rows(packed, settings["check_every"])
    scores = load_scores(arguments.scores, packed, device)
    log.write(loaded=clock.spent())
    log.write(start=check_rows(student, rows, check, scores, settings["tokens"]))
    student.train()
    student.words.weight.requires_grad_(False)
    student.dropout = settings["dropout"]
    compile_layers(student, settings["compile"])
    compile_layers(teacher, settings["compile"])
    master = Master(student, settings["rate"], decay=settings["decay"])
    batches = mix_streams(rows, train_rows, settings, settings["seed"] + 7, clock)
    step = train(
        master,
        batches,
        lambda batch: distil_loss(student, teacher, batch, scores, settings["weight"]),
        settings,
        clock,
        log,
    )
    final = master.averaged()
    save_int8(final, arguments.out)
    log.write(step=step, spent=clock.spent())
    figures = check_rows(final, rows, check, scores, settings["tokens"])
    log.write(spent=clock.spent(), **figures)


if __name__ == "__main__":
    main()
