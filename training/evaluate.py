"""Print the figures of a reading model on data that training never saw; runs on a CPU.

    python -m training.evaluate --model training/out/reading/model.onnx [--only read near ...]

Parts: read (held-back titles of squad2-dev-half, clapnq), near (questions whose answer was taken
out of the pool), verify (scifact, climate-fever, wice dev with windows), claims (the claims pack),
cost. `training.ranking` prints the ranker's table.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer

from training.predict import Prediction, Predictor
from training.rows import (
    DATA,
    OUT,
    ROOT,
    STOP_WORDS,
    Row,
    digest,
    is_held_back,
    plain,
    read_lines,
    split_sentences,
)

Array = np.ndarray[Any, Any]


def area(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the area under the ROC curve; ties count half."""
    both = np.concatenate([positive, negative])
    _, place, count = np.unique(both, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    wins = rank[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(wins / (len(positive) * len(negative)))


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Cut sentences by the rule that cuts the training rows."""
    found, at = [], 0
    for sentence in split_sentences(text):
        begin = text.index(sentence, at)
        at = begin + len(sentence)
        found.append((begin, at))
    return found


def normalise(text: str) -> list[str]:
    """Bring an answer into the form of SQuAD's own scoring."""
    text = "".join(one for one in text.lower() if one not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def overlap(found: str, gold: str) -> float:
    """Return the F1 of the words of two answers."""
    a, b = normalise(found), normalise(gold)
    common = sum((collections.Counter(a) & collections.Counter(b)).values())
    return 2 * common / (len(a) + len(b)) if common else float(a == b)


def read_squad(data: Path) -> tuple[dict[str, Row], list[Row]]:
    """Return the passages and the questions of the held-back titles."""
    passages = {row["_id"]: row for row in read_lines(data / "squad2-dev-half/corpus.jsonl")}
    questions = [
        row
        for row in read_lines(data / "squad2-dev-half/qa.jsonl")
        if is_held_back(passages[row["passage_id"]]["title"])
    ]
    return passages, questions


def evaluate_read(predictor: Predictor, data: Path, share: float) -> list[str]:
    """Held-back titles of squad2-dev-half, each question with its own passage; and clapnq."""
    passages, questions = read_squad(data)
    questions = [q for q in questions if digest(q["id"]) % 1000 < share * 1000]
    texts = [passages[q["passage_id"]]["text"] for q in questions]
    found = predictor.predict([(q["question"], t) for q, t in zip(questions, texts, strict=True)])
    held, exact, f1, odd = [], [], [], []
    for question, text, one in zip(questions, texts, found, strict=True):
        if question["is_impossible"]:
            continue
        odd.append(digest(question["id"]) % 2 == 1)
        answer = text[one.start : one.end]
        sentence = next((text[a:b] for a, b in sentence_spans(text) if a <= one.start < b), answer)
        held.append(any(plain(gold) in plain(sentence) for gold in question["answers"]))
        exact.append(any(normalise(answer) == normalise(g) for g in question["answers"]))
        f1.append(max(overlap(answer, gold) for gold in question["answers"]))
    can = [o.read for o, q in zip(found, questions, strict=True) if not q["is_impossible"]]
    cannot = [o.read for o, q in zip(found, questions, strict=True) if q["is_impossible"]]
    rows = read_lines(data / "clapnq/qa.jsonl")
    scored = [predictor.predict([(r["input"], p["text"]) for p in r["passages"]]) for r in rows]
    best = [max(one.read for one in group) for group in scored]
    yes = [s for s, r in zip(best, rows, strict=True) if r["answerable"]]
    no = [s for s, r in zip(best, rows, strict=True) if not r["answerable"]]
    return [
        "| questions (answerable / misleading) | sentence holds the answer | exact | F1 | AUROC "
        "misleading | AUROC clapnq |",
        "|---|---|---|---|---|---|",
        f"| {len(can)} / {len(cannot)} | {np.mean(held):.3f} | {np.mean(exact):.3f} | "
        f"{np.mean(f1):.3f} | {area(can, cannot):.3f} | {area(yes, no):.3f} |",
        "",
        f"answerable with an odd hash (the span's length penalty was chosen on the others): "
        f"{sum(odd)}, sentence {np.mean(np.array(held)[odd]):.3f}, exact "
        f"{np.mean(np.array(exact)[odd]):.3f}, F1 {np.mean(np.array(f1)[odd]):.3f}",
    ]


def cut_windows(text: str, words: int = 170, step: int = 120) -> list[str]:
    """Cut a long text into windows of words."""
    parts = text.split()
    if len(parts) <= words:
        return [text]
    return [" ".join(parts[at : at + words]) for at in range(0, len(parts) - words + step, step)]


def search(pool: Sequence[str], questions: Sequence[str], depth: int) -> Array:
    """Rank a pool of passages by BM25 for each question."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(list(pool), stemmer=stemmer, show_progress=False), show_progress=False
    )
    wanted = bm25s.tokenize(list(questions), stemmer=stemmer, show_progress=False)
    found, _ = index.retrieve(wanted, k=min(depth, len(pool)), show_progress=False)
    return np.asarray(found)


def read_best(predictor: Predictor, question: str, passages: Sequence[str]) -> float:
    """Return the best read score over passages, long ones in windows."""
    pairs = [(question, window) for p in passages for window in cut_windows(p)]
    return max(one.read for one in predictor.predict(pairs))


def evaluate_near(predictor: Predictor, data: Path, share: float) -> list[str]:
    """Top five of the pool with the answer's passages in it, and with them taken out."""
    lines = ["| pool | questions | AUROC answered / answer taken out |", "|---|---|---|"]
    passages, questions = read_squad(data)
    pool = [row["text"] for row in passages.values()]
    at = {key: i for i, key in enumerate(passages)}
    asked = [q for q in questions if not q["is_impossible"]]
    asked = sorted(asked, key=lambda q: digest(q["id"]))[: int(400 * share)]
    gone = [
        {at[q["passage_id"]]}
        | {
            i
            for i, text in enumerate(pool)
            if any(f" {plain(a)} " in f" {plain(text)} " for a in q["answers"])
        }
        for q in asked
    ]
    own = [{at[q["passage_id"]]} for q in asked]
    lines.append(near_line(predictor, "squad2", pool, [q["question"] for q in asked], own, gone))
    corpus = read_lines(data / "anthropic-docs-rag/corpus.jsonl")
    at = {row["_id"]: i for i, row in enumerate(corpus)}
    rows = read_lines(data / "anthropic-docs-rag/qa.jsonl")[: int(100 * share)]
    right = [{at[c] for c in r["correct_chunks"] if c in at} for r in rows]
    texts = [row["text"] for row in corpus]
    questions_ = [r["question"] for r in rows]
    lines.append(near_line(predictor, "anthropic-docs", texts, questions_, right, right))
    return lines


def near_line(
    predictor: Predictor, name: str, pool: list[str], questions: list[str],
    right: list[set[int]], gone: list[set[int]],
) -> str:  # fmt: skip
    """Compute one line of the near-topic table."""
    found = search(pool, questions, 60)
    with_answer, without = [], []
    for question, row, good, bad in zip(questions, found, right, gone, strict=True):
        top = [int(i) for i in row[:5]]
        if good.intersection(top):
            with_answer.append(read_best(predictor, question, [pool[i] for i in top]))
        rest = [int(i) for i in row if int(i) not in bad][:5]
        if rest:
            without.append(read_best(predictor, question, [pool[i] for i in rest]))
    figure = area(with_answer, without)
    return f"| {name} | {len(with_answer)} / {len(without)} | {figure:.3f} |"


def list_windows(sentences: list[str], claim: str, width: int, most: int) -> list[str]:
    """Return the windows of `width` sentences nearest to the claim by words, best first."""
    wanted = set(plain(claim).split()) - STOP_WORDS
    if len(sentences) <= width:
        return [" ".join(sentences)]
    marks = [len(wanted & set(plain(s).split())) for s in sentences]
    order = sorted(range(len(sentences)), key=lambda i: -marks[i])[:width]
    windows = [" ".join(sentences[i] for i in sorted(order))]
    starts = range(0, len(sentences) - width + 1, max(1, width // 2))
    ranked = sorted(
        starts, key=lambda i: -len(wanted & set(plain(" ".join(sentences[i : i + width])).split()))
    )
    return windows + [" ".join(sentences[i : i + width]) for i in ranked[: most - 1]]


def claims_with_evidence(data: Path) -> list[tuple[str, str, list[str], bool]]:
    """Return set, claim, sentences, and whether a reader found that they support the claim."""
    rows: list[tuple[str, str, list[str], bool]] = [
        ("wice dev", row["claim"], row["evidence"], row["label"] == "supported")
        for row in read_lines(data / "wice/claim.dev.jsonl")
    ]
    for row in read_lines(data / "climate-fever/pairs.jsonl"):
        if digest(row["claim"]) % 4 < 2:
            sentences = [row["evidence"]]
            rows.append(("climate-fever", row["claim"], sentences, row["label"] == "SUPPORTS"))
    corpus = {row["_id"]: row["text"] for row in read_lines(data / "scifact/corpus.jsonl")}
    for row in read_lines(data / "scifact/claims_with_evidence.jsonl"):
        labels = {one["doc_id"]: one["label"] for one in row["evidence"]}
        for document in row["cited_doc_ids"]:
            if document in corpus:
                sentences = split_sentences(corpus[document])
                supports = labels.get(document) == "SUPPORT"
                rows.append(("scifact", row["text"], sentences, supports))
    return rows


def evaluate_verify(predictor: Predictor, data: Path, share: float) -> list[str]:
    """AUROC of "supported": the best window of sentences counts."""
    lines = ["| set | claims | AUROC best window | mean of all windows |", "|---|---|---|---|"]
    rows = [r for r in claims_with_evidence(data) if digest(r[1] + r[2][0]) % 1000 < share * 1000]
    pairs, owner = [], []
    for i, (_, claim, sentences, _) in enumerate(rows):
        for window in list_windows([s for s in sentences if s.strip()], claim, 5, 5):
            pairs.append((claim, window))
            owner.append(i)
    found = predictor.predict(pairs)
    groups: dict[int, list[Prediction]] = collections.defaultdict(list)
    for i, one in zip(owner, found, strict=True):
        groups[i].append(one)
    for name in dict.fromkeys(row[0] for row in rows):
        these = [i for i, row in enumerate(rows) if row[0] == name]
        best = {i: max(o.supported for o in groups[i]) for i in these}
        mean = {i: float(np.mean([o.supported for o in groups[i]])) for i in these}
        figures = [
            area([s[i] for i in these if rows[i][3]], [s[i] for i in these if not rows[i][3]])
            for s in (best, mean)
        ]
        lines.append(f"| {name} | {len(these)} | {figures[0]:.3f} | {figures[1]:.3f} |")
    return lines


def evaluate_claims(predictor: Predictor, path: Path) -> list[str]:
    """The claims pack: changed claims against honest paraphrases, and a table by kind.

    The threshold is fitted on one half of the pack (by hash of the id) and judged on the other,
    both ways round.
    """
    rows = read_lines(path)
    found = predictor.predict([(r["claim"], r["evidence"]) for r in rows])
    score = np.array([one.supported for one in found])
    changed = np.array([r["label"] == "changed" for r in rows])
    half = np.array([digest(str(r["id"])) % 2 for r in rows])
    bars = {h: float(np.quantile(score[~changed & (half != h)], 0.09)) for h in (0, 1)}
    refused = np.array([s < bars[h] for s, h in zip(score, half, strict=True)])
    lines = [
        f"claims {len(rows)}: changed {changed.sum()}, paraphrases {(~changed).sum()}; AUROC "
        f"{area(score[~changed], score[changed]):.3f}; threshold fitted on the other half "
        f"({bars[0]:.3f} / {bars[1]:.3f}): caught {refused[changed].mean():.3f}, paraphrases "
        f"refused {refused[~changed].mean():.3f}; at one half: caught "
        f"{(score[changed] < 0.5).mean():.3f}, refused {(score[~changed] < 0.5).mean():.3f}",
        "",
        "| kind | label | claims | AUROC against all others | below the threshold |",
        "|---|---|---|---|---|",
    ]
    for label in ("changed", "paraphrase"):
        kinds = sorted({r["kind"] for r in rows if r["label"] == label})
        for kind in kinds:
            these = np.array([r["kind"] == kind and r["label"] == label for r in rows])
            other = changed if label == "paraphrase" else ~changed
            pair = (
                (score[other], score[these]) if label == "changed" else (score[these], score[other])
            )
            lines.append(
                f"| {kind} | {label} | {these.sum()} | {area(*pair):.3f} | "
                f"{refused[these].mean():.3f} |"
            )
    return lines


def evaluate_cost(predictor: Predictor) -> list[str]:
    """CPU milliseconds on one thread, least of ten."""

    def cost(pairs: list[tuple[str, str]]) -> float:
        spent = []
        for _ in range(10):
            begun = time.process_time()
            predictor.predict(pairs)
            spent.append(time.process_time() - begun)
        return min(spent) * 1000

    passage = " ".join(["The council met again in the old town hall to vote on the road."] * 14)
    question = "When did the council vote on the road?"
    claim = ("The council voted on the road.", " ".join(passage.split(". ")[:2]))
    size = len(predictor.tokenizer.encode(question, passage).ids)
    return [
        f"three passages of {size} tokens with the question: {cost([(question, passage)] * 3):.0f} "
        f"CPU ms; one claim, two sentences: {cost([claim]):.1f} CPU ms",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", type=Path, default=OUT / "reading/model.onnx")
    parser.add_argument("--tokenizer", type=Path, default=OUT / "base/tokenizer.json")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--claims", type=Path, default=ROOT / "bench/packs/claims.jsonl")
    parser.add_argument("--share", type=float, default=1.0, help="of the questions and claims")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    predictor = Predictor(options.model, options.tokenizer)
    parts = {
        "cost": lambda: evaluate_cost(predictor),
        "claims": lambda: evaluate_claims(predictor, options.claims),
        "read": lambda: evaluate_read(predictor, options.data, options.share),
        "verify": lambda: evaluate_verify(predictor, options.data, options.share),
        "near": lambda: evaluate_near(predictor, options.data, options.share),
    }
    for name, part in parts.items():
        if (not options.only or name in options.only) and (
            name != "claims" or options.claims.is_file()
        ):
            print(f"## {name}", *part(), "", sep="\n", flush=True)
    digest_ = json.dumps({"model": options.model.name, "bytes": options.model.stat().st_size})
    print(digest_)


if __name__ == "__main__":
    main()
