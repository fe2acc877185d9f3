"""Measure the CPU ms of one question by stage, and what repeats, conversations and searches cost.

    python bench/load_store.py bench/cache/store-50k                     once
    OMP_NUM_THREADS=1 python bench/cost.py bench/cache/store-50k

One question after the other, so all CPU time of the process between two marks belongs to the stage
between them, whichever thread it was in. Printed is the median over the questions:

- `new`: questions that were not asked before, passages not read before;
- `known`: other questions about passages that were read before;
- `repeated`: the first questions once more;
- `second`: a follow-up in a conversation, beside the question it follows;
- `search`: `Engine.search` beside the index's own two searches with the embedding.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WARM_UP = 4
# Spans, and functions that are marked below, by what they are called in the table.
STAGES = {
    "understand": ("understand.intent", "understand.follow_up", "understand.expand"),
    "embed the question": ("embed", "batch"),
    "dense": ("retrieve.semantic",),
    "keyword": ("retrieve.keyword",),
    "fuse, read chunks": ("fuse", "read"),
    "refine": ("refine.filter", "refine.deduplicate", "refine.merge", "refine.select"),
    "context": ("ground.context",),
    "units, features": ("check.evidence", "understand.contest"),
    "sentence vectors": ("embed sentences",),
    "write": ("ground.generate", "ground.choices"),
    "check without verifying": ("check.ground", "check.conflict"),
    "search again": ("correct.search",),
    "journal": ("journal",),
    "reading": ("model read",),
    "verifying": ("model verify",),
}
MODELS = ("reading", "verifying")


class StageClock:
    """Attribute the CPU time of the process to the innermost stage that is open."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._open: list[str] = ["rest"]
        self._mark = time.process_time()

    def _settle(self) -> None:
        now = time.process_time()
        self.spent[self._open[-1]] += (now - self._mark) * 1000
        self._mark = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._settle()
        self._open.append(name)
        try:
            yield
        finally:
            self._settle()
            self._open.remove(name)

    def take(self) -> Counter[str]:
        self._settle()
        spent, self.spent = self.spent, Counter()
        return spent

    def watch(self, owner: Any, method: str, name: str | Callable[[], str]) -> None:
        """Count a method of a class as a stage."""
        original = getattr(owner, method)

        def timed(*given: Any, **named: Any) -> Any:
            with self.stage(name if isinstance(name, str) else name()):
                return original(*given, **named)

        setattr(owner, method, timed)

    @property
    def innermost(self) -> str:
        return self._open[-1]


def watch_stages(clock: StageClock) -> None:
    from ragstone.catalog.journal import JournalWriter
    from ragstone.models.cache import QuestionBatcher
    from ragstone.models.embedder import OnnxEmbedder
    from ragstone.reading.model import ReadingModel
    from ragstone.trace import QueryRun

    original = QueryRun.span

    @contextmanager
    def span(run: QueryRun, stage: str) -> Iterator[Any]:
        with clock.stage(stage), original(run, stage) as one:
            yield one

    QueryRun.span = span
    clock.watch(ReadingModel, "read_sentences", "model read")
    clock.watch(ReadingModel, "verify", "model verify")
    clock.watch(QuestionBatcher, "_embed", "batch")
    clock.watch(JournalWriter, "_commit", "journal")
    outside = ("embed", "batch")
    clock.watch(
        OnnxEmbedder,
        "_run",
        lambda: clock.innermost if clock.innermost in outside else "embed sentences",
    )


class Costs:
    """Hold what every question cost, by stage."""

    def __init__(self) -> None:
        self.rows: list[Counter[str]] = []

    def add(self, spent: Counter[str]) -> None:
        names = {span: title for title, spans in STAGES.items() for span in spans}
        row: Counter[str] = Counter()
        for stage, ms in spent.items():
            row[names.get(stage, "rest")] += ms
        self.rows.append(row)

    def median(self, pick: Callable[[Counter[str]], float]) -> float:
        return statistics.median(pick(row) for row in self.rows)

    @property
    def total(self) -> float:
        return self.median(lambda row: sum(row.values()))

    @property
    def without_models(self) -> float:
        return self.median(lambda row: sum(ms for name, ms in row.items() if name not in MODELS))

    def mean(self, title: str) -> float:
        return statistics.mean(row[title] for row in self.rows)


async def ask_each(
    engine: Any, clock: StageClock, questions: Sequence[str], **options: Any
) -> Costs:
    costs = Costs()
    for question in questions:
        clock.take()
        await engine.ask(question, **options)
        costs.add(clock.take())
    return costs


async def converse(engine: Any, clock: StageClock, count: int) -> tuple[Costs, Costs]:
    """Ask the first two questions of conversations that people wrote."""
    rows = map(json.loads, (HERE / "packs/dialogues.jsonl").read_text("utf-8").splitlines())
    pairs = [row["turns"][:2] for row in rows if row["collection"] == "k8s"]
    first, second = Costs(), Costs()
    for at, pair in enumerate(pairs[:count]):
        session = f"cost-{time.time_ns()}-{at}"
        for costs, turn in zip((first, second), pair, strict=False):
            clock.take()
            await engine.ask(turn["question"], session_id=session)
            costs.add(clock.take())
    return first, second


async def compare_search(engine: Any, questions: Sequence[str]) -> tuple[float, float, float]:
    """Return the median CPU ms of Engine.search, of its index with the embedding, and without."""
    found = defaultdict(list)
    retrieve = engine.settings.retrieve
    for question in questions:
        begun = time.process_time()
        vector = engine.embedder.embed([question])[0]
        embedded = time.process_time()
        engine.index.search_dense("default", vector, limit=retrieve.candidates)
        engine.index.search_keyword(
            "default", question, limit=retrieve.candidates, k1=retrieve.bm25_k1, b=retrieve.bm25_b
        )
        ended = time.process_time()
        found["with"].append((ended - begun) * 1000)
        found["index"].append((ended - embedded) * 1000)
    for question in questions:  # embedded above: the vector is in the cache now
        begun = time.process_time()
        await engine.search(question)
        found["search"].append((time.process_time() - begun) * 1000)
    embedding = statistics.median(found["with"]) - statistics.median(found["index"])
    search = statistics.median(found["search"]) + embedding
    return search, statistics.median(found["with"]), statistics.median(found["index"])


async def main(arguments: argparse.Namespace) -> None:
    from ragstone.engine import Engine
    from ragstone.settings import load_settings

    clock = StageClock()
    watch_stages(clock)
    flags = {"data.directory": arguments.store}
    engine = Engine(load_settings(flags=flags, environ={}).settings)
    engine.open()
    asked = json.loads((arguments.store / "asked.json").read_text("utf-8"))
    sentences = json.loads((arguments.store / "questions.json").read_text("utf-8"))
    await ask_each(engine, clock, [f"{one} ({time.time_ns()})" for one in sentences[:WARM_UP]])
    questions = asked[: arguments.questions]
    new = await ask_each(engine, clock, questions)
    print_stages({
        "new": new,
        "known": await ask_each(
            engine, clock, [f"{one.rstrip('?.')}, please?" for one in questions]
        ),
        "repeated": await ask_each(engine, clock, questions),
    })  # fmt: skip
    first, second = await converse(engine, clock, arguments.questions // 2)
    print(f"\nfirst in a conversation {first.total:.1f}, second {second.total:.1f}", end="")
    print(f", {second.total / first.total:.2f} times")
    search, whole, index = await compare_search(engine, sentences[WARM_UP : WARM_UP + 60])
    print(
        f"Engine.search {search:.1f}, index with embedding {whole:.1f} (alone {index:.1f})", end=""
    )
    print(f", {search / whole:.2f} times")
    engine.close()


def print_stages(rounds: dict[str, Costs]) -> None:
    print(f"| CPU ms, median of {len(rounds['new'].rows)} | {' | '.join(rounds)} |")
    print("|---" * (len(rounds) + 1) + "|")
    for title, pick in (("all", "total"), ("all but reading and verifying", "without_models")):
        print(f"| {title} | {' | '.join(f'{getattr(one, pick):.1f}' for one in rounds.values())} |")
    for title in (*STAGES, "rest"):
        cells = [f"{one.median(lambda row, t=title: row[t]):.1f} ({one.mean(title):.1f})"
                 for one in rounds.values()]  # fmt: skip
        print(f"| {title}: median (mean) | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("store", type=Path)
    parser.add_argument("--questions", type=int, default=100)
    asyncio.run(main(parser.parse_args()))
