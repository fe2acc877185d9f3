"""Fit the weights with which answers are chosen, on one part of the questions; report the other.

    python bench/fit_answers.py --data ../shared/data [--write]

Sets: squad2-dev-half (titles that the reading model never saw), clapnq, xquad (en, de, es, ru),
`packs/reading.jsonl` (software documentation) and the development half of `packs/answers.jsonl`.
One half of each fits, by the hash of the title or id. Every question is asked a second time with
all passages that hold its answer removed: what is found then is near the subject and no answer.
Documents of offices and households are `packs/fit.jsonl` (contracts, handbooks, minutes, manuals)
and `packs/fit_everyday.jsonl` (passages with questions in everyday words, which the reading model
was not trained on). Without these two, weights went to shared words, which such questions lack.
Searches and readings are kept in bench/cache/fit, so that a second run is quick.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "packs"))

from matching import contains_phrase  # noqa: E402

import answers  # noqa: E402
from ragstone import Engine  # noqa: E402
from ragstone.models.cache import add_vector_cache  # noqa: E402
from ragstone.reading.choose import (  # noqa: E402
    KINDS,
    MAX_SENTENCES,
    OVERALL,
    compute_answer_features,
    compute_shares,
    is_readable,
    load_weights,
    select_front,
    select_passages,
)
from ragstone.reading.features import (  # noqa: E402
    CHEAP,
    MEANING,
    compute_cheap_features,
    compute_meaning_features,
    list_candidates,
    weigh_terms,
)
from ragstone.reading.model import load_reading_model  # noqa: E402
from ragstone.reading.question import parse_question  # noqa: E402
from ragstone.reading.read import READING, read_sentences  # noqa: E402
from ragstone.settings import load_settings  # noqa: E402
from ragstone.types import Hits, Source  # noqa: E402

ROOT = HERE.parent
WEIGHTS = ROOT / "src/ragstone/reading/weights.toml"
CACHE = HERE / "cache" / "fit"
# Sentences are added until their share of the ranking reaches this.
ENOUGH = 0.6
_SOURCES = 10
# Half of its questions were written to mislead: its share of right answers is not that of life.
MISLEADING = "squad2-dev-half"
# How a sentence looks tells which one to quote, but not whether a document holds the answer: these
# sets have few notes and tables, and "The gate code is 8812." is an answer.
# Nor do ratios between hits, which mean something else in a small collection.
SAYS_NOTHING = (
    "length", "very_short", "no_sentence", "row", "first", "points_back", "fresh", "lead_in",
    "fused_gap", "rank", "pairs", "offers", "offers_nothing", "nothing_in_context", "names",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question to a collection, with the strings that a right sentence holds."""

    set: str
    question: str
    answers: tuple[str, ...]
    group: str
    hits: Hits = ()
    removed: bool = False
    """The passages with the answer were taken out of the hits."""

    @property
    def fits(self) -> bool:
        return int(hashlib.sha256(self.group.encode()).hexdigest()[:8], 16) % 2 == 0

    def holds_answer(self, text: str) -> bool:
        plain = " ".join(text.split())
        return any(one in plain or contains_phrase(plain, one) for one in self.answers)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def hash_share(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def is_held_back(title: str) -> bool:
    """Return True for the titles that the reading model was not trained on."""
    return int(hashlib.sha256(title.encode()).hexdigest(), 16) % 2 == 1


def load_squad(data: Path, folder: str, most: int) -> tuple[dict[str, str], list[Asked]]:
    corpus = {row["_id"]: row for row in read_lines(data / folder / "corpus.jsonl")}
    texts = {key: f"# {row['title']}\n\n{row['text']}\n" for key, row in corpus.items()}
    asked = [
        Asked(folder, row["question"], tuple(row["answers"]), corpus[row["passage_id"]]["title"])
        for row in read_lines(data / folder / "qa.jsonl")
        if folder != "squad2-dev-half" or is_held_back(corpus[row["passage_id"]]["title"])
    ]
    # By the hash of a second text, so that both halves keep all their titles.
    asked = [replace(one, group=f"{one.group}/{hash_share(one.question) < 0.5}") for one in asked]
    return texts, sorted(asked, key=lambda one: hash_share(one.question + "?"))[:most]


def load_clapnq(data: Path) -> tuple[dict[str, str], list[Asked]]:
    texts, asked = {}, []
    for row in read_lines(data / "clapnq/qa.jsonl"):
        passage = row["passages"][0]
        texts[row["id"]] = f"# {passage['title']}\n\n{passage['text']}\n"
        found = (row["output"][0].get("selected_sentences") or []) if row["output"] else []
        held = tuple(" ".join(one.split()) for one in found)
        asked.append(Asked("clapnq", row["input"], held, row["id"]))
    return texts, asked


def load_passages(name: str, file: str) -> tuple[dict[str, str], list[Asked]]:
    """Load passages, each with questions that it answers and some that it does not."""
    rows = read_lines(HERE / "packs" / file)
    texts = {row["id"]: row["text"] for row in rows}
    asked = [
        Asked(name, question, (span,), row["id"])
        for row in rows
        for question, span in row["answered"]
    ]
    asked += [Asked(name, q, (), row["id"]) for row in rows for q in row["unanswered"]]
    return texts, asked


def load_office_pack() -> tuple[dict[str, str], list[Asked]]:
    """Load contracts, handbooks, minutes and manuals that were written for this fit."""
    texts = {path.name: path.read_text("utf-8") for path in sorted(HERE.glob("packs/fit/*.md"))}
    asked = [
        Asked("office", row["question"], tuple(row["answers"]), row["question"])
        for row in read_lines(HERE / "packs/fit.jsonl")
    ]
    return texts, asked


async def search_set(name: str, texts: dict[str, str], asked: list[Asked]) -> list[Asked]:
    """Search with the real engine once; the next run reads the hits from the cache."""
    folder = CACHE / name.replace("/", "-")
    loaded = load_settings(flags={"data.directory": folder / "data"}, environ={})
    async with Engine(loaded.settings) as engine:
        kept = folder / f"hits-{engine.embedder.name}-{len(asked)}.pickle"
        if kept.exists():
            found: list[Asked] = pickle.loads(kept.read_bytes())
            return found
        documents = folder / "documents"
        documents.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts.values()):
            (documents / f"{number}.md").write_text(text, "utf-8")
        report = await engine.ingest([documents])
        assert not report.of("failed"), report.of("failed")[0]
        found = []
        for one in asked:
            found += split_by_answer(one, await engine.search(one.question, top_k=2 * _SOURCES))
    kept.write_bytes(pickle.dumps(found))
    return found


def split_by_answer(one: Asked, hits: Hits) -> Iterator[Asked]:
    """Yield the question with its hits, and again without the hits that hold the answer."""
    yield replace(one, hits=hits[:_SOURCES])
    if one.answers:
        left = tuple(hit for hit in hits if not one.holds_answer(hit.chunk.text))
        yield replace(one, hits=left[:_SOURCES], removed=True)


async def search_off_subject(name: str, questions: Sequence[str]) -> list[Asked]:
    """Ask a collection, as it lies in the cache, what belongs to others: nothing answers that."""
    folder = CACHE / name.replace("/", "-")
    loaded = load_settings(flags={"data.directory": folder / "data"}, environ={})
    async with Engine(loaded.settings) as engine:
        kept = folder / f"off-{engine.embedder.name}-{len(questions)}.pickle"
        if not kept.exists():
            found = [
                Asked(name, text, (), text, await engine.search(text, top_k=_SOURCES))
                for text in questions
            ]
            kept.write_bytes(pickle.dumps(found))
        return list(pickle.loads(kept.read_bytes()))


async def search_answers(data: Path) -> list[Asked]:
    """Search the development half of the real questions."""
    places = answers.write_collections(data, answers.CACHE / "documents")
    rows = read_lines(HERE / "packs/answers.jsonl")
    loaded = load_settings(flags={"data.directory": answers.CACHE / "data"}, environ={})
    found: list[Asked] = []
    async with Engine(loaded.settings) as engine:
        kept = CACHE / f"hits-answers-{engine.embedder.name}.pickle"
        if kept.exists():
            return list(pickle.loads(kept.read_bytes()))
        for name, place in places.items():
            if all(row["collection"] != name for row in rows):
                continue
            await engine.ingest([place], collection=name)
            for row in rows:
                if row["collection"] == name and row["half"] == "dev":
                    held = tuple(one for group in row["must"] for one in group)
                    one = Asked("answers", row["question"], held, "answers-dev")
                    hits = await engine.search(row["question"], collection=name, top_k=20)
                    found += split_by_answer(one, hits)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(pickle.dumps(found))
    return found


@dataclass
class Row:
    """A question as numbers: features of its sentences, and which of them are right."""

    asked: Asked
    by: str
    """`reading` or `meaning`: who compared the sentences."""
    features: Any
    right: Any
    cheap: Any
    cheap_right: Any


def build_row(one: Asked, embedder: Any, cheap_weights: Any) -> Row | None:
    sources = [Source(n, hit, hit.chunk.text) for n, hit in enumerate(one.hits, 1)]
    found = list_candidates(one.question, sources)
    if not found:
        return None
    terms = weigh_terms(one.question, found)
    cheap = compute_cheap_features(terms, found)
    right = np.array([not one.removed and one.holds_answer(s.text) for s in found])
    by = "reading" if is_readable(one.question, found) else "meaning"
    scores = cheap @ cheap_weights[by]
    places = select_passages(found, scores) if by == "reading" else select_front(scores)
    front = [found[place] for place in places]
    more = (
        read_sentences(terms.text, front, load_reading_model()).features
        if by == "reading"
        else compute_meaning_features(terms, front, embedder)
    )
    return Row(one, by, np.hstack([cheap[places], more]), right[places], cheap, right)


def minimize_adam(gradient: Any, size: int, *, steps: int) -> Any:
    """Minimize with Adam: the problems are convex and small, so numpy is enough."""
    weights, first, second = np.zeros(size), np.zeros(size), np.zeros(size)
    for step in range(1, steps + 1):
        slope = gradient(weights)
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        weights -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-9)
    return weights


def fit_ranking(tables: Sequence[Any], rights: Sequence[Any], *, penalty: float) -> Any:
    """Fit a softmax regression: sentences with the answer against the others."""
    everything = np.concatenate(tables)
    scale = everything.std(axis=0) + 1e-6
    x = (everything - everything.mean(axis=0)) / scale
    y = np.concatenate(rights).astype(float)
    group = np.repeat(np.arange(len(tables)), [len(table) for table in tables])

    def gradient(weights: Any) -> Any:
        score = x @ weights
        highest = np.full(len(tables), -np.inf)
        np.maximum.at(highest, group, score)
        raised = np.exp(score - highest[group])
        p = raised / np.bincount(group, raised)[group]
        target = p * y / np.bincount(group, p * y)[group]
        return x.T @ (p - target) / len(tables) + penalty * weights

    return minimize_adam(gradient, x.shape[1], steps=400) / scale


def fit_answering(x: Any, y: Any, importance: Any, *, penalty: float = 2e-3) -> tuple[Any, float]:
    """Fit a logistic regression: does the chosen sentence contain the answer?"""
    middle, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    z = np.column_stack([(x - middle) / scale, np.ones(len(x))])
    importance = importance / importance.sum()

    def gradient(weights: Any) -> Any:
        p = 1 / (1 + np.exp(-z @ weights))
        return z.T @ ((p - y) * importance) + penalty * np.append(weights[:-1], 0.0)

    weights = minimize_adam(gradient, z.shape[1], steps=1500)
    raw = weights[:-1] / scale
    return raw, float(weights[-1] - middle @ raw)


def choose_best(scores: Any) -> Any:
    order = np.argsort(-scores, kind="stable")
    held = np.cumsum(compute_shares(scores)[order])
    return order[: min(int(np.searchsorted(held, ENOUGH)) + 1, MAX_SENTENCES)]


def compute_auroc(high: Any, low: Any) -> float:
    """Return the probability that one of `high` is above one of `low`."""
    if not len(high) or not len(low):
        return float("nan")
    return float(np.mean((high[:, None] > low) + 0.5 * (high[:, None] == low)))


@dataclass
class Fitted:
    """The weights of one way of comparing, and what they give for every row."""

    cheap: Any
    rank: Any
    answer: Any
    bias: float
    rows: list[Row]
    probability: Any
    right: Any


def fit_way(rows: list[Row], names: Sequence[str], cheap: Any) -> Fitted:
    """Fit ranking and probability for the rows of one way of comparing."""
    columns = (*CHEAP, *names)
    good = [row for row in rows if row.asked.fits and row.right.any()]
    rank = fit_ranking([r.features for r in good], [r.right for r in good], penalty=3e-3)
    scores = [row.features @ rank for row in rows]
    x = np.array(
        [
            compute_answer_features(r.features, s, parse_question(r.asked.question).kind)
            for r, s in zip(rows, scores, strict=True)
        ]
    )
    right = np.array(
        [bool(r.right[choose_best(s)].any()) for r, s in zip(rows, scores, strict=True)]
    )
    x[:, [columns.index(name) for name in SAYS_NOTHING]] = 0.0
    use = np.array([row.asked.fits for row in rows])
    # Every set weighs the same, and so do questions with their answer and those without.
    kinds = [(row.asked.set, bool(r)) for row, r in zip(rows, right, strict=True)]
    counts = {kind: sum(k == kind and u for k, u in zip(kinds, use, strict=True)) for kind in kinds}
    # A handful of questions says nothing of its set.
    importance = np.array([(counts[kind] >= 20) / max(counts[kind], 1) for kind in kinds])
    answer, bias = fit_answering(x[use], right[use].astype(float), importance[use])
    probability = 1 / (1 + np.exp(-(x @ answer + bias)))
    return Fitted(cheap, rank, answer, bias, rows, probability, right)


def print_report(one: Fitted, threshold: float) -> None:
    """Print for each set: the answer is held (`held`), the choice has it (`top`), AUROC of right
    against wrong, of answerable against removed (`near`), the share of removed ones answered when
    90 % of the answerable are (`kept90`), the shares answered at the threshold, and of the answers
    given the calibration error and the AUROC."""
    names = ("held", "top", "AUROC", "near", "kept90", "@bar", "@bar no", "ECE", "AUROC")
    print(f"{'set':18}{'half':8}" + "".join(f"{name:>8}" for name in names))
    for name in dict.fromkeys(row.asked.set for row in one.rows):
        for fits in (True, False):
            at = [i for i, r in enumerate(one.rows) if r.asked.set == name and r.asked.fits == fits]
            if len(at) < 20:
                continue
            p, right = one.probability[at], one.right[at]
            can = np.array([one.rows[i].right.any() for i in at])
            removed = np.array([one.rows[i].asked.removed for i in at])
            keep = np.quantile(p[can], 0.1) if can.any() else 0.0
            given = p >= threshold
            error, area = answers.measure_calibration(
                list(zip(p[given], right[given], strict=True))
            )
            figures = (
                right[can].mean(), compute_auroc(p[right], p[~right]),
                compute_auroc(p[can], p[removed]), np.mean(p[removed] >= keep),
                np.mean(given[can]), np.mean(given[~can]), error, area,
            )  # fmt: skip
            print(f"{name:18}{'fit' if fits else 'report':8}{can.sum():8}"
                  + "".join(f"{figure:8.3f}" for figure in figures))  # fmt: skip


def fit_confidence(fitted: Sequence[Fitted], threshold: float) -> tuple[float, float]:
    """Fit Platt's two constants on the answers that are given, every set with the same weight.

    `python bench/answers.py --half dev` has written the graded answers of the development half:
    only there an answer must be complete to be right.
    """
    pairs: dict[str, list[tuple[float, bool]]] = {}
    for one in fitted:
        for row, p, right in zip(one.rows, one.probability, one.right, strict=True):
            if row.asked.fits and p >= threshold and row.asked.set not in ("answers", MISLEADING):
                pairs.setdefault(row.asked.set, []).append((float(p), bool(right)))
    graded = answers.CACHE / "dev.jsonl"
    if graded.exists():
        pairs["answers"] = [
            (row["probability"], row["grade"] == "right")
            for row in read_lines(graded)
            if row["status"] == "answered"
        ]
    some = [(p, right, 1.0 / len(many)) for many in pairs.values() for p, right in many]
    p = np.clip([one[0] for one in some], 1e-6, 1 - 1e-6)
    slope, offset = fit_answering(
        np.log(p / (1 - p))[:, None],
        np.array([float(one[1]) for one in some]),
        np.array([one[2] for one in some]),
        penalty=0.0,
    )
    print(f"\nconfidence: slope {slope[0]:.4g}, offset {offset:.4g}, from {len(some)} answers")
    return float(slope[0]), offset


def format_table(title: str, names: Sequence[str], weights: Any, **more: float) -> str:
    values = [f"{n} = {w:.5g}" for n, w in zip(names, weights, strict=True)]
    values += [f"{n} = {w:.5g}" for n, w in more.items()]
    return f"[{title}]\n" + "\n".join(values) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--threshold", type=float, default=0.35)
    parser.add_argument("--near", type=float, default=0.12)
    parser.add_argument("--most", type=int, default=500, help="squad questions of a set")
    parser.add_argument("--fresh", action="store_true", help="read all passages again")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    options = parser.parse_args()
    sets = [("squad2-dev-half", load_squad(options.data, "squad2-dev-half", 2 * options.most))]
    sets += [("clapnq", load_clapnq(options.data))]
    sets += [("reading", load_passages("reading", "reading.jsonl"))]
    sets += [("everyday", load_passages("everyday", "fit_everyday.jsonl"))]
    sets += [("office", load_office_pack())]
    for language in ("en", "de", "es", "ru"):
        folder = f"xquad/{language}"
        sets += [(folder, load_squad(options.data, folder, options.most // 2))]
    asked: list[Asked] = []
    for name, (texts, questions) in sets:
        asked += asyncio.run(search_set(name, texts, questions))
        print(f"searched {name}", flush=True)
    asked += asyncio.run(search_answers(options.data))
    rows = read_all(asked, "rows", fresh=options.fresh)
    off: list[Asked] = []
    for at, (name, _) in enumerate(sets):
        other = sets[(at + 1) % len(sets)][1][1]
        off += asyncio.run(search_off_subject(name, [one.question for one in other[:80]]))
    rows += read_all(off, "rows-off", fresh=options.fresh)
    weights, all_fitted = [], []
    for by, names in (("reading", READING), ("meaning", MEANING)):
        mine = [row for row in rows if row.by == by]
        good = [row for row in mine if row.asked.fits and row.cheap_right.any()]
        cheap = fit_ranking([r.cheap for r in good], [r.cheap_right for r in good], penalty=1e-3)
        fitted = fit_way(mine, names, cheap)
        print(f"\n{by}: {len(mine)} questions")
        print_report(fitted, options.threshold)
        all_fitted.append(fitted)
        weights += [
            format_table(f"{by}.cheap", CHEAP, cheap),
            format_table(f"{by}.rank", (*CHEAP, *names), fitted.rank),
            format_table(
                f"{by}.answer", (*CHEAP, *names, *OVERALL, *KINDS), fitted.answer, bias=fitted.bias
            ),
        ]
    fit_confidence(all_fitted, options.threshold)
    if options.write:
        head = "# Written by bench/fit_answers.py: do not edit.\n"
        bars = f"threshold = {options.threshold}\nnear = {options.near}\nenough = {ENOUGH}\n"
        WEIGHTS.write_text("\n".join([head + bars, *weights]), "utf-8")


def read_all(asked: Sequence[Asked], name: str, *, fresh: bool) -> list[Row]:
    """Read every question with the cheap weights as they are; keep the result."""
    kept = CACHE / f"{name}-{load_reading_model().check_files()}.pickle"
    if kept.exists() and not fresh:
        rows: list[Row] = pickle.loads(kept.read_bytes())
        return rows
    blocks = [asked[at : at + 250] for at in range(0, len(asked), 250)]
    rows = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        for at, some in enumerate(processes.map(read_block, blocks)):
            rows += some
            print(f"read {250 * (at + 1)} of {len(asked)}", flush=True)
    kept.write_bytes(pickle.dumps(rows))
    return rows


def read_block(asked: Sequence[Asked]) -> list[Row]:
    """Read some questions in a process of its own."""
    known = load_weights()
    cheap = {"reading": known.reading.cheap, "meaning": known.meaning.cheap}
    embedder = open_embedder()
    rows = (build_row(one, embedder, cheap) for one in asked)
    return [row for row in rows if row is not None]


@cache
def open_embedder() -> Any:
    return add_vector_cache(Engine().embedder)


if __name__ == "__main__":
    main()
