"""How far answers can be trusted: claim support, perturbed claims, citations of bad-mannered
models, the extractive answerer, abstention and confidence. One command, the same figures each time.

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
from pathlib import Path
from typing import Any

import numpy as np

import fit_extractive
import fit_support
from fit_extractive import Asked, Remembering, auroc, plain
from manners import MANNERS, served
from perturb import CHANGES, changed, shortened
from plot import write_lines
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.check.conclude import calibrated
from ragstone.query.check.review import review
from ragstone.query.check.support import FEATURES, shipped_weights
from ragstone.query.evidence import grade_evidence
from ragstone.query.ground.cite import Notation
from ragstone.reading.choose import SentenceChooser
from ragstone.settings import load_settings
from ragstone.text import sentence_spans
from ragstone.types import Chunk, Hit, Source

HERE = Path(__file__).parent
OUT = HERE / "out"
DATA = HERE.parent.parent / "shared" / "data"
SAMPLES = HERE.parent / "src/ragstone/samples"
CHOOSING = HERE.parent / "src/ragstone/query/ground/choose"
PER_KIND = 150


def one_source(text: str) -> Notation:
    return Notation((Source(1, Hit(Chunk("d", 0, text, 0, len(text)), 1.0, "hybrid"), text),))


def perturbed(data: Path) -> list[str]:
    """Sentences of squad passages (the half that nothing was fitted on), true and made false."""
    passages = fit_extractive.records(data / "squad2-dev-half/corpus.jsonl")
    report = [row["text"] for row in passages if not Asked("", "", [], "", row["title"]).fits]
    where = {text[a:b]: text for text in report for a, b in sentence_spans(text) if b - a > 30}
    sentences = sorted(where, key=lambda s: hashlib.sha256(s.encode()).digest())
    embedder = Remembering(HERE / "cache" / "perturbed.pickle")

    def verdict(claim: str, text: str) -> str:
        claims = review(claim, one_source(text), embedder).claims
        return min((one.verdict for one in claims), key=ORDER.index, default="supported")

    lines = [
        "| change | claims | caught | of these named as a contradiction |",
        "|---|---|---|---|",
    ]
    caught = total = 0
    for kind in CHANGES:
        pairs = changed(sentences, kind, PER_KIND)
        found = [verdict(false, where[true]) for true, false in pairs]
        bad = [one for one in found if one != "supported"]
        named = sum(one == "contradicted" for one in bad)
        caught, total = caught + len(bad), total + len(found)
        lines.append(f"| {kind} | {len(found)} | {len(bad) / len(found):.3f} | "
                     f"{named / max(len(bad), 1):.3f} |")  # fmt: skip
    lines.append(f"| **all** | {total} | **{caught / total:.3f}** | |")
    shorter = [(cut, where[s]) for s in sentences if (cut := shortened(s))][:PER_KIND]
    for title, untouched in (("untouched sentences", [(s, where[s]) for s in sentences[:500]]),
                             ("sentences without their last clause", shorter)):  # fmt: skip
        alarms = sum(verdict(claim, text) != "supported" for claim, text in untouched)
        lines.append(f"\n{title}: {len(untouched)}, false alarms {alarms / len(untouched):.3f}")
    embedder.save()
    return lines


ORDER = ["contradicted", "unsupported", "partial", "misattributed", "supported"]


def support(data: Path) -> list[str]:
    """Claims with texts that readers judged: each signal, and all of them together."""
    name, y, x, fits = fit_support.features(data)
    weights, bias = shipped_weights()
    score = 1 / (1 + np.exp(-(x @ weights + bias)))
    lines = ["| set | claims | all together | best single signal | balanced accuracy |",
             "|---|---|---|---|---|"]  # fmt: skip
    curves: dict[str, list[tuple[float, float]]] = {}
    for one in dict.fromkeys(name):
        here, tuned = ~fits & (name == one), fits & (name == one)
        whole = auroc(score[here & y], score[here & ~y])
        single = [max(a, 1 - a) for a in (auroc(x[here & y, i], x[here & ~y, i])
                                          for i in range(len(FEATURES)))]  # fmt: skip
        best = int(np.argmax(single))
        bar = fit_support.best_threshold(score[tuned], y[tuned])
        accuracy = fit_support.balanced_accuracy(score[here], y[here], bar)
        lines.append(f"| {one} | {here.sum():,} | {whole:.3f} | {single[best]:.3f} "
                     f"({FEATURES[best]}) | {accuracy:.3f} |")  # fmt: skip
        bars = np.quantile(score[here], np.linspace(0, 1, 60))
        curves[f"{one} {whole:.3f}"] = [
            (float(np.mean(score[here & ~y] >= b)), float(np.mean(score[here & y] >= b)))
            for b in bars
        ]
    write_lines(
        OUT / "grounding-support.svg", "Claim support", ("false positives", "found"), curves
    )
    return lines


class Read:
    """The questions of the half that was not fitted on, read with the shipped weights."""

    def __init__(self, data: Path, share: float) -> None:
        cache = HERE / "cache/extractive"
        embedder = Remembering(cache / "vectors.pickle")
        self.asked: list[Asked] = []
        for passages, questions in fit_extractive.sets(data, share):
            self.asked += asyncio.run(fit_extractive.searched(passages, questions, cache, embedder))
        chooser = SentenceChooser(embedder)
        self.threshold = chooser.weights.threshold
        kept = cache / f"read-{len(self.asked)}-{stamp(CHOOSING)}.pickle"
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

    def _read(self, chooser: SentenceChooser) -> tuple[list[float], list[bool]]:
        probability: list[float] = []
        right: list[bool] = []
        for one in self.asked:
            sources = [Source(n, hit, hit.chunk.text) for n, hit in enumerate(one.hits, 1)]
            choice = chooser.choose(one.question, sources)
            held = any(
                one.found[s.source.number - 1] == one.passage
                and any(plain(answer) in plain(s.text) for answer in one.answers)
                for s in choice.sentences
            )
            probability.append(choice.probability)
            right.append(held)
        return probability, right


def stamp(folder: Path) -> str:
    """What the code and weights of a folder are, so that a cache is used with no others."""
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def extractive(read: Read) -> list[str]:
    lines = ["| set | questions with their passage retrieved | answered | answer held |",
             "|---|---|---|---|"]  # fmt: skip
    p, bar = read.probability, read.threshold
    for name in dict.fromkeys(read.corpus):
        these = read.report & (read.corpus == name) & read.answerable & read.retrieved
        if these.any():
            lines.append(f"| {name} | {these.sum()} | {np.mean(p[these] >= bar):.3f} | "
                         f"{np.mean(read.right[these] & (p[these] >= bar)):.3f} |")  # fmt: skip
    lines += ["", "| grade of the evidence | questions | the answer was held |", "|---|---|---|"]
    grades = np.array([grade_evidence(one) for one in p])
    for grade in ("correct", "ambiguous", "incorrect"):
        these = read.report & (grades == grade)
        lines.append(f"| {grade} | {these.sum()} | {np.mean(read.right[these]):.3f} |")
    return lines


def abstention(read: Read) -> list[str]:
    """Questions without an answer: told from answerable ones, and answered all the same."""
    p = read.probability
    lines = ["| questions without an answer | questions | AUROC | answered all the same |",
             "|---|---|---|---|"]  # fmt: skip
    all_answerable = read.report & read.answerable & read.retrieved
    for name in dict.fromkeys(read.corpus):
        here = read.report & (read.corpus == name)
        base = here & read.answerable & read.retrieved
        base = base if base.any() else all_answerable & (read.corpus == "squad2-dev-half")
        for what, these in (("off-corpus", here & read.off),
                            ("on the subject", here & ~read.off & ~read.answerable)):  # fmt: skip
            if these.any():
                lines.append(f"| {what}, {name} | {these.sum()} | {auroc(p[base], p[these]):.3f} | "
                             f"{np.mean(p[these] >= read.threshold):.3f} |")  # fmt: skip
    off = read.report & read.off
    lines.append(f"| **off-corpus, all** | {off.sum()} | "
                 f"**{auroc(p[all_answerable], p[off]):.3f}** | "
                 f"{np.mean(p[off] >= read.threshold):.3f} |")  # fmt: skip
    return lines


def confidence(read: Read) -> list[str]:
    """Confidence against the share of right answers, and risk against coverage."""
    value = np.array([calibrated(one) for one in read.probability])
    misleading = (read.corpus == "squad2-dev-half") & ~read.off & ~read.answerable
    lines = [
        "| questions | count | right | mean confidence | ECE (10 bins) |",
        "|---|---|---|---|---|",
    ]
    diagram: dict[str, list[tuple[float, float]]] = {}
    risk: dict[str, list[tuple[float, float]]] = {}
    for title, these in (("without those made to mislead", read.report & ~misleading),
                         ("all", read.report)):  # fmt: skip
        v, r = value[these], read.right[these]
        points, error = reliability(v, r)
        diagram[f"{title}: ECE {error:.3f}"] = points
        lines.append(f"| {title} | {these.sum()} | {r.mean():.3f} | {v.mean():.3f} | {error:.3f} |")
        order = np.argsort(-v, kind="stable")
        wrong = np.cumsum(~r[order]) / np.arange(1, len(order) + 1)
        risk[title] = [((i + 1) / len(order), float(wrong[i]))
                       for i in range(9, len(order), max(len(order) // 80, 1))]  # fmt: skip
        covered = {share: wrong[int(share * len(order)) - 1] for share in (0.25, 0.5, 0.75)}
        lines.append(f"| wrong among the most confident quarter, half, three quarters | | "
                     f"{' / '.join(f'{one:.3f}' for one in covered.values())} | | |")  # fmt: skip
    write_lines(OUT / "grounding-reliability.svg", "Reliability", ("confidence", "right"), diagram,
                diagonal=True)  # fmt: skip
    write_lines(OUT / "grounding-risk.svg", "Risk and coverage", ("answered", "wrong"), risk)
    return lines


def reliability(value: Any, right: Any) -> tuple[list[tuple[float, float]], float]:
    """Confidence and share of right ones per bin, and the expected calibration error."""
    points, error = [], 0.0
    bins = np.minimum((value * 10).astype(int), 9)
    for number in range(10):
        these = bins == number
        if these.any():
            said, true = float(value[these].mean()), float(right[these].mean())
            points.append((said, true))
            error += float(these.mean()) * abs(said - true)
    return points, error


def sample_questions() -> list[dict[str, Any]]:
    text = (SAMPLES / "questions.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def samples() -> list[str]:
    """The sample questions with the extractive answerer, and what a question costs."""
    rows = sample_questions()
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
    held = [plain(row["answer"]) in plain(answer.text) for row, answer in pairs]
    can = [row["answerable"] for row in rows]
    right = sum(h for h, c in zip(held, can, strict=True) if c)
    refused = sum(a.status == "abstained" for a, c in zip(answers, can, strict=True) if not c)
    lost = sum(a.status == "abstained" for a, c in zip(answers, can, strict=True) if c)
    notices = sum("The sources do not agree" in a.text for a in answers)
    return [
        f"answerable: {sum(can)}, answered right {right}, not answered {lost}; "
        f"unanswerable: {len(rows) - sum(can)}, abstained {refused}; conflict notices {notices}; "
        f"{spent:.0f} CPU ms per question",
    ]


async def manners() -> list[str]:
    """Models that know the answer but cite badly: is what ends in the answer right?

    A citation is right when its snippet overlaps the sentence that holds the answer, at its place
    in its document. Half of the sentences are said as they stand, half without their last clause.
    """
    rows = [row for row in sample_questions() if row["answerable"]]
    sayings = {}
    for number, row in enumerate(rows):
        cut = shortened(row["evidence"]) if number % 2 else None
        good = cut is not None and row["answer"] in cut
        sayings[row["question"]] = [cut if good and cut else " ".join(row["evidence"].split())]
    lines = [
        "| model | citations | precision | answers with a right citation |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        base = {"data.directory": Path(folder), "provider.name": "openai"}
        for manner in MANNERS:
            with served(manner, sayings) as url:
                flags = {**base, "provider.base_url": url}
                settings = load_settings(flags=flags, environ={}).settings
                async with Engine(settings, embedder=OnnxEmbedder()) as engine:
                    await engine.ingest([SAMPLES / "documents"])
                    good, total, answered = await _cited(engine, rows)
            lines.append(f"| {manner} | {total} | **{good / max(total, 1):.3f}** | "
                         f"{answered / len(rows):.3f} |")  # fmt: skip
    return lines


async def _cited(engine: Engine, rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    good = total = answered = 0
    for row in rows:
        answer = await engine.ask(row["question"])
        right = 0
        for one in answer.citations:
            text = engine.catalog.document(one.document_id).text
            assert text[one.start : one.end] == one.snippet
            same = one.document_name.endswith(row["document"].rsplit("/", 1)[-1])
            wanted, said = set(plain(row["evidence"]).split()), set(plain(one.snippet).split())
            right += same and len(wanted & said) >= 0.5 * min(len(wanted), len(said))
        good, total, answered = good + right, total + len(answer.citations), answered + bool(right)
    return good, total, answered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--share", type=float, default=0.3, help="of the squad questions")
    parser.add_argument("--only", nargs="*", help="only these parts")
    options = parser.parse_args()
    read: list[Read] = []

    def reading() -> Read:
        if not read:
            read.append(Read(options.data, options.share))
        return read[0]

    parts: dict[str, tuple[str, Callable[[], list[str]]]] = {
        "perturbed": ("Perturbed claims", lambda: perturbed(options.data)),
        "support": ("Claim support", lambda: support(options.data)),
        "manners": ("Citations of models with bad manners", lambda: asyncio.run(manners())),
        "samples": ("The sample questions", lambda: asyncio.run(samples())),
        "extractive": ("The extractive answerer", lambda: extractive(reading())),
        "abstention": ("Abstention", lambda: abstention(reading())),
        "confidence": ("Confidence", lambda: confidence(reading())),
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
