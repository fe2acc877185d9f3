"""A model's judgement over real HTTP; a reply that makes no sense leaves no gap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragstone.evaluate.datasets import Dataset, Passage, Question
from ragstone.evaluate.run import Options, run_questions
from ragstone.evaluate.summary import measure_run
from ragstone.evaluate.workbench import Workbench
from ragstone.testing import HashEmbedder

from ..providers.stand_in import served
from .build import inside


async def test_a_model_judges_and_nonsense_is_left_out(tmp_path: Path) -> None:
    passage = Passage("gate", "The gate of the observatory is painted green every spring.")
    asked = (Question("a", "What colour is the gate?", answers=("green",)),)
    dataset = Dataset("gate", asked, (passage,))
    async with served() as model:
        flags = {
            "provider.name": "openai",
            "provider.base_url": model.url,
            "provider.api_key": "k",
            "provider.max_retries": 0,
        }
        bench = Workbench(dataset, inside(tmp_path, **flags), embedder=HashEmbedder())
        bench.prepare()
        # Both calls get these words: an answer to the question, and a judgement in it.
        said = "The gate of the observatory is painted green every spring [Source 1]. "
        model.words = [said, '{"faithfulness": 9, "relevance": 10}']
        options = Options(answers=True, judge=True)
        run = await run_questions(bench, bench.settings, options, name="judged")
        found = measure_run(run)
        assert found["judged_faithfulness"] == {"a": 0.9}
        assert found["judged_relevance"] == {"a": 1.0}
        assert found["input_tokens"]["a"] > 0
        model.words = [said, "What more is there to say?"]
        again = replace(options, again=True)
        run = await run_questions(bench, bench.settings, again, name="judged")
        assert "judged_relevance" not in measure_run(run)
        assert run.outcomes[0].answer
