"""Measure how far answers can be trusted: claim support, perturbed claims, badly citing models, the
extractive answerer, abstention and confidence. The figures are the same in each run.

    python bench/grounding.py                   # everything; about 5 CPU minutes with warm caches
    python bench/grounding.py --only perturbed manners

Weights and thresholds were fitted on one half of each set (bench/fit_*.py); what is printed is the
other half. Curves go to bench/out/grounding-*.svg, the table to bench/out/grounding.md.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import pickle
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fit_extractive
import fit_support
from fit_extractive import CachedEmbedder, SearchedQuestion, compute_auroc, normalize_text
from manners import CITATION_STYLES, serve_model
from perturb import CHANGES, make_pairs, shorten_sentence
from plot import write_curves
from ragstone.engine import Engine
from ragstone.evidence import grade_evidence
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.check.checker import calibrate_probability
from ragstone.query.check.review import review_text
from ragstone.query.check.support import FEATURES, load_support_weights
from ragstone.query.ground.cite import Notation
from ragstone.reading.choose import AnswerChooser
from ragstone.settings import load_settings
from ragstone.text import find_sentence_spans
from ragstone.types import Chunk, Hit, Source

HERE = Path(__file__).parent
OUT = HERE / "out"
DATA = HERE.parent.parent / "shared" / "data"
SAMPLES = HERE.parent / "src/ragstone/samples"
READING = HERE.parent / "src/ragstone/reading"
PER_KIND = 150


def make_sources(text: str) -> Notation:
    return Notation((Source(1, Hit(Chunk("d", 0, text, 0, len(text)), 1.0, "hybrid"), text),))


def measure_perturbed(data: Path) -> list[str]:
    """Measure true and falsified sentences of the squad half that was not used for fitting."""
    passages = fit_extractive.read_records(data / "squad2-dev-half/corpus.jsonl")
    report = [
        row["text"] for row in passages if not SearchedQuestion("", "", [], "", row["title"]).fits
    ]
    where = {text[a:b]: text for text in report for a, b in find_sentence_spans(text) if b - a > 30}
    sentences = sorted(where, key=lambda s: hashlib.sha256(s.encode()).digest())
    embedder = CachedEmbedder(HERE / "cache" / "perturbed.pickle")

    def verdict(claim: str, text: str) -> str:
        claims = review_text(claim, make_sources(text), embedder).claims
        return min((one.verdict for one in claims), key=ORDER.index, default="supported")

    lines = [
        "| change | claims | caught | of these named as a contradiction |",
        "|---|---|---|---|",
    ]
    caught = total = 0
    for kind in CHANGES:
        pairs = make_pairs(sentences, kind, PER_KIND)
        found = [verdict(false, where[true]) for true, false in pairs]
        bad = [one for one in found if one != "supported"]
        named = sum(one == "contradicted" for one in bad)
        caught, total = caught + len(bad), total + len(found)
        lines.append(
            f"| {kind} | {len(found)} | {len(bad) / len(found):.3f} | "
            f"{named / max(len(bad), 1):.3f} |"
        )
    lines.append(f"| **all** | {total} | **{caught / total:.3f}** | |")
    shorter = [(cut, where[s]) for s in sentences if (cut := shorten_sentence(s))][:PER_KIND]
    for title, untouched in (
        ("untouched sentences", [(s, where[s]) for s in sentences[:500]]),
        ("sentences without their last clause", shorter),
    ):
        alarms = sum(verdict(claim, text) != "supported" for claim, text in untouched)
        lines.append(f"\n{title}: {len(untouched)}, false alarms {alarms / len(untouched):.3f}")
    embedder.save()
    return lines


ORDER = ["contradicted", "unsupported", "partial", "misattributed", "supported"]


def measure_support(data: Path) -> list[str]:
    """Measure claims that people judged: each signal, and all together."""
    name, y, x, fits = fit_support.compute_features(data)
    weights, bias = load_support_weights()
    score = 1 / (1 + np.exp(-(x @ weights + bias)))
    lines = [
        "| set | claims | all together | best single signal | balanced accuracy |",
        "|---|---|---|---|---|",
    ]
    curves: dict[str, list[tuple[float, float]]] = {}
    for one in dict.fromkeys(name):
        here, tuned = ~fits & (name == one), fits & (name == one)
        whole = compute_auroc(score[here & y], score[here & ~y])
        single = [
            max(a, 1 - a)
            for a in (compute_auroc(x[here & y, i], x[here & ~y, i]) for i in range(len(FEATURES)))
        ]
        best = int(np.argmax(single))
        bar = fit_support.find_best_threshold(score[tuned], y[tuned])
        accuracy = fit_support.compute_balanced_accuracy(score[here], y[here], bar)
        lines.append(
            f"| {one} | {here.sum():,} | {whole:.3f} | {single[best]:.3f} "
            f"({FEATURES[best]}) | {accuracy:.3f} |"
        )
        bars = np.quantile(score[here], np.linspace(0, 1, 60))
        curves[f"{one} {whole:.3f}"] = [
            (float(np.mean(score[here & ~y] >= b)), float(np.mean(score[here & y] >= b)))
            for b in bars
        ]
    write_curves(
        OUT / "grounding-support.svg", "Claim support", ("false positives", "found"), curves
    )
    return lines


class ReadQuestions:
    """The questions of the half not used for fitting, read with the shipped weights."""

    def __init__(self, data: Path, share: float) -> None:
        cache = HERE / "cache/extractive"
        embedder = CachedEmbedder(cache / "vectors.pickle")
        self.asked: list[SearchedQuestion] = []
        for passages, questions in fit_extractive.load_sets(data, share):
            self.asked += asyncio.run(
                fit_extractive.search_questions(passages, questions, cache, embedder)
            )
        chooser = AnswerChooser(embedder)
        self.threshold = chooser.weights.threshold
        kept = cache / f"read-{len(self.asked)}-{hash_folder(READING)}.pickle"
        if kept.is_file():
            probability, right = pickle.loads(kept.read_bytes())
        else:
            probability, right = self._read(chooser)
            kept.write_bytes(pickle.dumps((probability, right)))
            embedder.save()
        self.probability, self.right = np.array(probability), np.array(right)
        self.report = np.array([not one.fits for one in self.asked])
        self.corpus = np.array([one.corpus for one in self.asked])
        self.off = np.array([one.off_corpus for one in self.asked])
        self.answerable = np.array([bool(one.answers) for one in self.asked])
        self.retrieved = np.array([one.retrieved for one in self.asked])

    def _read(self, chooser: AnswerChooser) -> tuple[list[float], list[bool]]:
        probability: list[float] = []
        right: list[bool] = []
        for one in self.asked:
            sources = [Source(n, hit, hit.chunk.text) for n, hit in enumerate(one.hits, 1)]
            choice = chooser.choose(one.question, sources)
            held = any(
                one.found[s.source.number - 1] == one.passage
                and any(normalize_text(answer) in normalize_text(s.text) for answer in one.answers)
                for s in choice.sentences
            )
            probability.append(choice.probability)
            right.append(held)
        return probability, right


def hash_folder(folder: Path) -> str:
    """Hash the code and weights of a folder, as the key of a cache."""
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def measure_extractive(read: ReadQuestions) -> list[str]:
    lines = [
        "| set | questions with their passage retrieved | answered | answer held |",
        "|---|---|---|---|",
    ]
    p, bar = read.probability, read.threshold
    for name in dict.fromkeys(read.corpus):
        these = read.report & (read.corpus == name) & read.answerable & read.retrieved
        if these.any():
            lines.append(
                f"| {name} | {these.sum()} | {np.mean(p[these] >= bar):.3f} | "
                f"{np.mean(read.right[these] & (p[these] >= bar)):.3f} |"
            )
    lines += ["", "| grade of the evidence | questions | the answer was held |", "|---|---|---|"]
    grades = np.array([grade_evidence(one) for one in p])
    for grade in ("correct", "ambiguous", "incorrect"):
        these = read.report & (grades == grade)
        lines.append(f"| {grade} | {these.sum()} | {np.mean(read.right[these]):.3f} |")
    return lines


def measure_abstention(read: ReadQuestions) -> list[str]:
    """Measure unanswerable questions: how many are recognised, how many are answered."""
    p = read.probability
    lines = [
        "| questions without an answer | questions | AUROC | answered all the same |",
        "|---|---|---|---|",
    ]
    all_answerable = read.report & read.answerable & read.retrieved
    for name in dict.fromkeys(read.corpus):
        here = read.report & (read.corpus == name)
        base = here & read.answerable & read.retrieved
        base = base if base.any() else all_answerable & (read.corpus == "squad2-dev-half")
        for what, these in (
            ("off-corpus", here & read.off),
            ("on the subject", here & ~read.off & ~read.answerable),
        ):
            if these.any():
                lines.append(
                    f"| {what}, {name} | {these.sum()} | {compute_auroc(p[base], p[these]):.3f} | "
                    f"{np.mean(p[these] >= read.threshold):.3f} |"
                )
    off = read.report & read.off
    lines.append(
        f"| **off-corpus, all** | {off.sum()} | "
        f"**{compute_auroc(p[all_answerable], p[off]):.3f}** | "
        f"{np.mean(p[off] >= read.threshold):.3f} |"
    )
    return lines


def measure_confidence(read: ReadQuestions) -> list[str]:
    """Measure confidence against the share of right answers, and risk against coverage."""
    value = np.array([calibrate_probability(one) for one in read.probability])
    misleading = (read.corpus == "squad2-dev-half") & ~read.off & ~read.answerable
    lines = [
        "| questions | count | right | mean confidence | ECE (10 bins) |",
        "|---|---|---|---|---|",
    ]
    diagram: dict[str, list[tuple[float, float]]] = {}
    risk: dict[str, list[tuple[float, float]]] = {}
    for title, these in (
        ("without those made to mislead", read.report & ~misleading),
        ("all", read.report),
    ):
        v, r = value[these], read.right[these]
        points, error = compute_reliability(v, r)
        diagram[f"{title}: ECE {error:.3f}"] = points
        lines.append(f"| {title} | {these.sum()} | {r.mean():.3f} | {v.mean():.3f} | {error:.3f} |")
        order = np.argsort(-v, kind="stable")
        wrong = np.cumsum(~r[order]) / np.arange(1, len(order) + 1)
        risk[title] = [
            ((i + 1) / len(order), float(wrong[i]))
            for i in range(9, len(order), max(len(order) // 80, 1))
        ]
        covered = {share: wrong[int(share * len(order)) - 1] for share in (0.25, 0.5, 0.75)}
        lines.append(
            f"| wrong among the most confident quarter, half, three quarters | | "
            f"{' / '.join(f'{one:.3f}' for one in covered.values())} | | |"
        )
    write_curves(
        OUT / "grounding-reliability.svg",
        "Reliability",
        ("confidence", "right"),
        diagram,
        diagonal=True,
    )
    write_curves(OUT / "grounding-risk.svg", "Risk and coverage", ("answered", "wrong"), risk)
    return lines


def compute_reliability(value: Any, right: Any) -> tuple[list[tuple[float, float]], float]:
    """Return confidence and share right per bin, and the expected calibration error."""
    points, error = [], 0.0
    bins = np.minimum((value * 10).astype(int), 9)
    for number in range(10):
        these = bins == number
        if these.any():
            said, true = float(value[these].mean()), float(right[these].mean())
            points.append((said, true))
            error += float(these.mean()) * abs(said - true)
    return points, error


def load_sample_questions() -> list[dict[str, Any]]:
    text = (SAMPLES / "questions.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def measure_samples() -> list[str]:
    """Ask the sample questions with the extractive answerer, and measure the cost."""
    rows = load_sample_questions()
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(flags={"data.directory": Path(folder)}, environ={}).settings
        async with Engine(settings, embedder=OnnxEmbedder()) as engine:
            await engine.ingest([SAMPLES / "documents"])
            for row in rows[:3]:
                await engine.ask(row["question"])  # warm
            begun = time.process_time()
            answers = [await engine.ask(row["question"]) for row in rows]
            spent = (time.process_time() - begun) * 1000 / len(rows)
    pairs = list(zip(rows, answers, strict=True))
    held = [normalize_text(row["answer"]) in normalize_text(answer.text) for row, answer in pairs]
    can = [row["answerable"] for row in rows]
    right = sum(h for h, c in zip(held, can, strict=True) if c)
    refused = sum(a.status == "abstained" for a, c in zip(answers, can, strict=True) if not c)
    lost = sum(a.status == "abstained" for a, c in zip(answers, can, strict=True) if c)
    notices = sum("The sources do not agree" in a.text for a in answers)
    return [
        f"answerable: {sum(can)}, answered right {right}, not answered {lost}; "
        f"unanswerable: {len(rows) - sum(can)}, abstained {refused}; conflict notices {notices}; "
        f"{spent:.0f} CPU ms per question"
    ]


async def measure_bad_citations() -> list[str]:
    """Models that know the answer but cite badly: is what ends in the answer right?

    A citation is right when its snippet overlaps the sentence that holds the answer, at its place
    in its document. Half of the sentences are said as they stand, half without their last clause.
    """
    rows = [row for row in load_sample_questions() if row["answerable"]]
    sayings = {}
    for number, row in enumerate(rows):
        cut = shorten_sentence(row["evidence"]) if number % 2 else None
        good = cut is not None and row["answer"] in cut
        sayings[row["question"]] = [cut if good and cut else " ".join(row["evidence"].split())]
    lines = [
        "| model | citations | precision | answers with a right citation |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        base = {"data.directory": Path(folder), "provider.name": "openai"}
        for manner in CITATION_STYLES:
            with serve_model(manner, sayings) as url:
                flags = {**base, "provider.base_url": url}
                settings = load_settings(flags=flags, environ={}).settings
                async with Engine(settings, embedder=OnnxEmbedder()) as engine:
                    await engine.ingest([SAMPLES / "documents"])
                    good, total, answered = await _ask_model(engine, rows)
            lines.append(
                f"| {manner} | {total} | **{good / max(total, 1):.3f}** | "
                f"{answered / len(rows):.3f} |"
            )
    return lines


async def _ask_model(engine: Engine, rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    good = total = answered = 0
    for row in rows:
        answer = await engine.ask(row["question"])
        right = 0
        for one in answer.citations:
            text = engine.catalog.document(one.document_id).text
            assert text[one.start : one.end] == one.snippet
            same = one.document_name.endswith(row["document"].rsplit("/", 1)[-1])
            wanted, said = (
                set(normalize_text(row["evidence"]).split()),
                set(normalize_text(one.snippet).split()),
            )
            right += same and len(wanted & said) >= 0.5 * min(len(wanted), len(said))
        good, total, answered = good + right, total + len(answer.citations), answered + bool(right)
    return good, total, answered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--share", type=float, default=0.3, help="of the squad questions")
    parser.add_argument("--only", nargs="*", help="only these parts")
    options = parser.parse_args()

    @cache
    def read_questions() -> ReadQuestions:
        return ReadQuestions(options.data, options.share)

    parts: dict[str, tuple[str, Callable[[], list[str]]]] = {
        "perturbed": ("Perturbed claims", lambda: measure_perturbed(options.data)),
        "support": ("Claim support", lambda: measure_support(options.data)),
        "manners": (
            "Citations of badly citing models",
            lambda: asyncio.run(measure_bad_citations()),
        ),
        "samples": ("The sample questions", lambda: asyncio.run(measure_samples())),
        "extractive": ("The extractive answerer", lambda: measure_extractive(read_questions())),
        "abstention": ("Abstention", lambda: measure_abstention(read_questions())),
        "confidence": ("Confidence", lambda: measure_confidence(read_questions())),
    }
    pages = []
    for key, (title, run) in parts.items():
        if not options.only or key in options.only:
            pages.append("\n".join([f"## {title}", "", *run(), ""]))
            print(pages[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "grounding.md").write_text("\n".join(pages), "utf-8")


if __name__ == "__main__":
    main()
