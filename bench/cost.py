"""Measure the CPU ms of one question by stage: new passages, known passages, a repeated question.

python bench/cost.py bench/cache/store-50k
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

QUESTIONS = 30


async def main(store: Path) -> None:
    from ragstone.engine import Engine
    from ragstone.settings import load_settings

    engine = Engine(load_settings(flags={"data.directory": store}, environ={}).settings)
    questions = json.loads((store / "questions.json").read_text("utf-8"))[: QUESTIONS + 3]
    for question in questions[QUESTIONS:]:
        await engine.ask(question)
    asked = questions[:QUESTIONS]
    for title, round_ in (
        ("passages new", asked),
        ("read before", [f"{question[:-1]}, please?" for question in asked]),
        ("the same again", asked),
    ):
        stages: Counter[str] = Counter()
        begun = time.process_time()
        for question in round_:
            answer = await engine.ask(question)
            for span in answer.trace["spans"]:
                stages[span["stage"]] += span["cpu_ms"]
        total = (time.process_time() - begun) * 1000 / QUESTIONS
        print(f"{title}: {total:.1f} ms", flush=True)
        for stage, ms in stages.most_common(8):
            print(f"    {stage:20} {ms / QUESTIONS:.1f}", flush=True)
    engine.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
