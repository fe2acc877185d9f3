"""Ask a real model that is far too small, and print each of its claims with the verdict shown.

    RAGSTONE_DATA_MODELS=.tools/llm/models ragstone models pull smollm2-135m
    python bench/small_model.py --model .tools/llm/models/smollm2-135m/model.gguf

SmolLM2 (135 million parameters) mixes right sentences with invented ones. Whether a claim is true
only a reader can say: the script prints the sources' sentences below each claim that has a green
mark, and docs/reference/grounding-benchmark.md has the count of a reading. It needs
`pip install 'ragstone[local]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from pathlib import Path

from grounding import SAMPLES, load_sample_questions
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import load_settings
from ragstone.types import Answer


def print_answer(question: str, answer: Answer) -> None:
    """Print the claims of an answer; below a supported one what its citations say."""
    print(f"\n? {question}")
    print(f"  {answer.status}, written by {answer.provider}, {answer.degraded or 'not degraded'}")
    for claim in answer.claims:
        print(f"  - {claim.verdict} {claim.score:.2f}: {claim.text} {list(claim.reasons)}")
        if claim.verdict != "supported":
            continue
        for number in claim.citations:
            snippets = {c.snippet for c in answer.citations if c.number == number}
            for snippet in sorted(snippets):
                print(f"      [{number}] {' '.join(snippet.split())}")
    print(flush=True, end="")


def limit_threads(count: int) -> None:
    """Let llama.cpp compute with so many threads; they wait for each other on a busy machine."""
    import xllamacpp

    build = xllamacpp.CommonParams

    def build_limited() -> object:
        params = build()
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = count
        return params

    xllamacpp.CommonParams = build_limited


async def ask_all(model: Path, questions: int, tokens: int) -> Counter[str]:
    """Ask the answerable and unanswerable sample questions, and count the verdicts."""
    rows = load_sample_questions()
    chosen = rows[:: max(1, len(rows) // questions)][:questions]
    chosen += [row for row in rows if row not in chosen][: questions - len(chosen)]
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "data.directory": Path(folder),
            "provider.name": "local",
            "provider.model": str(model),
            "provider.max_tokens": tokens,
            "provider.timeout_s": 300.0,
            "ground.max_context_tokens": 500,
            "ingest.niceness": 0,
            # Written once more, an answer is not the model's own first one.
            "check.max_iterations": 0,
        }
        settings = load_settings(flags=flags, environ={}).settings
        async with Engine(settings, embedder=OnnxEmbedder()) as engine:
            await engine.ingest([SAMPLES / "documents"])
            for row in chosen:
                answer = await engine.ask(row["question"])
                print_answer(row["question"], answer)
                own = answer.provider == "local"
                count.update(claim.verdict for claim in answer.claims if own)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=64, help="the longest answer")
    parser.add_argument("--threads", type=int, default=1, help="threads of llama.cpp")
    options = parser.parse_args()
    limit_threads(options.threads)
    count = asyncio.run(ask_all(options.model.resolve(), options.questions, options.tokens))
    shown = ", ".join(f"{verdict} {number}" for verdict, number in count.most_common())
    print(f"\n{options.questions} questions, {sum(count.values())} claims of the model: {shown}")


if __name__ == "__main__":
    main()
