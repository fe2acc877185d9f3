"""Distil the 12-layer teacher into the 6-layer network that is shipped.

    python -m training.distil --rows training/data/rows --teacher training/out/teacher

The student starts from every second layer, or from `--start`. Each batch is judged by the teacher:
the student follows its start and end distributions, its verdict, its relevance score (the base
model's) and its hidden states, and a little of the labels themselves. Rows without a label count
fully. With `--keep FOLDER` the verdicts are those of that network, usually the one the student
starts from: a round that teaches reading then needs a teacher that only reads, and does not
unlearn to verify.
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
    split_rows,
    verify_loss,
)
from training.model import Reading, cut_layers, load_int8, save_half
from training.pack import RANK, VERIFY, Packed
from training.settings import read_toml
from training.teach import check_rows, parse_arguments, rank_loss


def follow_spans(student: Tensor, teacher: Tensor) -> Tensor:
    """Kullback-Leibler divergence of start and end, mean over rows."""
    loss = student.new_zeros(())
    for part in (0, 1):
        mine = functional.log_softmax(student[:, :, part], dim=1)
        wanted = functional.log_softmax(teacher[:, :, part], dim=1)
        loss = loss + (wanted.exp() * (wanted - mine)).sum(1).mean()
    return loss


def follow_states(
    student: list[Tensor], teacher: list[Tensor], mask: Tensor, inner: float
) -> Tensor:
    """Squared distance of hidden states: the last layer, and with less weight the ones before."""
    step = len(teacher) // len(student)
    share = mask[:, :, None].to(student[0].dtype)
    count = mask.sum() * student[0].shape[-1]
    loss = student[0].new_zeros((), dtype=torch.float32)
    for number, state in enumerate(student):
        weight = 1.0 if number == len(student) - 1 else inner
        difference = (state - teacher[number * step + step - 1]) * share
        loss = loss + weight * difference.float().pow(2).sum() / count
    return loss


def distil_loss(
    student: Reading,
    teacher: Reading,
    kept: Reading | None,
    batch: Batch,
    scores: Tensor,
    weights: dict[str, float],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of one batch and its parts."""
    judge = kept if kept is not None and batch.task == VERIFY else teacher
    with torch.no_grad():
        t_spans, t_verdict, t_score, t_states = judge(batch.ids, batch.types, batch.mask)
    spans, verdict, score, states = student(batch.ids, batch.types, batch.mask)
    parts, loss = {}, score.new_zeros(())
    # The states of a network that is kept and of a new teacher are different languages.
    if kept is None or judge is kept:
        parts["states"] = follow_states(states, t_states, batch.mask, weights["inner"])
        loss = loss + weights["states"] * parts["states"]
    if batch.task == VERIFY:
        parts["verify"] = functional.kl_div(
            functional.log_softmax(verdict, 1),
            functional.log_softmax(t_verdict, 1),
            reduction="batchmean",
            log_target=True,
        )
        loss = loss + weights["verify"] * parts["verify"]
        if batch.judged:
            parts["label"] = verify_loss(verdict, batch.label)
            loss = loss + weights["label"] * parts["label"]
        return loss, parts
    wanted = scores[batch.rows]
    parts["rank"] = rank_loss(score, torch.where(wanted.isnan(), t_score, wanted))
    parts["read"] = follow_spans(spans, t_spans)
    loss = loss + weights["rank"] * parts["rank"] + weights["read"] * parts["read"]
    if batch.task != RANK:
        loss = loss + weights["label_read"] * read_loss(spans, batch)
    return loss, parts


def main() -> None:
    arguments = parse_arguments(__doc__, "distil.toml")
    settings = read_toml(arguments.settings)
    seed = arguments.seed if arguments.seed is not None else settings["seed"]
    clock = Clock(settings["steps"], arguments.seconds or settings["seconds"])
    torch.manual_seed(seed)
    device = choose_device()
    log = Log(arguments.log / "distil.jsonl")
    packed = Packed.load(sorted(arguments.rows.glob("*.xz")), settings["longest"])
    rows = Rows(packed, device, seed)
    train, check = split_rows(packed, settings["check_every"])
    teacher = Reading(12)
    teacher.load_state_dict(torch.load(arguments.teacher / "weights.pt", map_location="cpu"))
    scores = torch.load(arguments.teacher / "base-scores.pt").to(device)
    start = arguments.start
    begin = (
        load_int8(start, settings["layers"]) if start else cut_layers(teacher, settings["layers"])
    )
    if settings["keep_words"]:  # both networks share one table of words
        begin.words = teacher.words
    student = cast(begin, device).train()
    student.words.weight.requires_grad_(not settings["keep_words"])
    teacher = cast(teacher, device).eval()
    kept = None
    if arguments.keep:
        kept = cast(load_int8(arguments.keep, settings["layers"]), device).eval()
    compile_layers(student, settings["compile"])
    compile_layers(teacher, settings["compile"])
    log.write(loaded=clock.spent(), tokens=int(packed.length.sum()))
    student.dropout = settings["dropout"]
    master = Master(student, settings["rate"], decay=settings["decay"])
    batches = mix_streams(rows, train, settings, seed + 7, clock)
    step, running = 0, {}
    while (progress := clock.progress(step)) < 1:
        batch = next(batches)
        loss, parts = distil_loss(student, teacher, kept, batch, scores, settings["weight"])
        loss.backward()
        master.step(progress, warm=0.02)
        for name, value in parts.items():
            running.setdefault(name, []).append(value.detach())
        step += 1
        if step % settings["log_every"] == 0:
            means = {name: torch.stack(v).mean().item() for name, v in running.items()}
            log.write(step=step, progress=progress, spent=clock.spent(), **means)
            running = {}
    final = master.averaged()
    save_half(final, arguments.out)
    log.write(
        step=step,
        spent=clock.spent(),
        **check_rows(cast(final, device), rows, check, scores, settings["tokens"]),
    )


if __name__ == "__main__":
    main()
