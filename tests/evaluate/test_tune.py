"""Tuning: sweeps measure the real pipeline, and nothing worse leaves the held-back half."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ragstone.errors import InputError
from ragstone.evaluate.datasets import load_dataset
from ragstone.evaluate.report_tuning import (
    render_tuning_html,
    render_tuning_markdown,
    tuning_as_dict,
)
from ragstone.evaluate.run import Options, run_questions
from ragstone.evaluate.summary import (
    compute_threshold_curve,
    measure_run,
    measure_thresholds,
    recommend_threshold,
)
from ragstone.evaluate.tune import (
    SPACE,
    CachedScorer,
    Sweeper,
    TuningResult,
    is_gain,
    render_settings_file,
    tune_settings,
)
from ragstone.evaluate.workbench import Workbench
from ragstone.settings import get_value, load_settings
from ragstone.settings.change import change_settings
from ragstone.testing import HashEmbedder

from .build import inside, painted_things

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("tune")
    # A start that can be improved upon: the hash embedder is a poor one, and this listens to it.
    settings = inside(folder, **{"retrieve.dense_weight": 1.0, "refine.mmr_lambda": 0.5})
    dataset = load_dataset(painted_things(folder / "things"))
    bench = Workbench(dataset, settings, embedder=HashEmbedder(dimension=16))
    bench.prepare()
    return bench


def test_a_sweep_measures_what_a_run_measures(bench: Workbench) -> None:
    questions = bench.dataset.questions[:10]
    sweeper = Sweeper(bench, questions)
    for values in ({}, {"retrieve.candidates": 5, "retrieve.dense_weight": 0.5}):
        settings = change_settings(bench.settings, values)
        quality = asyncio.run(sweeper.measure(settings, questions)).quality
        again = asyncio.run(sweeper.measure(settings, questions)).quality
        run = asyncio.run(run_questions(bench, settings, Options(), name="run"))
        wanted = [measure_run(run)["ndcg@10"][one.id] for one in questions]
        assert quality.tolist() == pytest.approx(wanted)
        assert again.tolist() == quality.tolist()
    assert asyncio.run(sweeper.measure_cpu_ms(bench.settings, questions)) > 0
    sweeper.close()


def test_tuning_finds_what_is_better_and_writes_it_down(bench: Workbench) -> None:
    tuned = asyncio.run(tune_settings(bench, max_questions=25, max_checks=25))
    assert tuned.after >= tuned.before
    assert tuned.values["retrieve.dense_weight"] < 1.0
    assert (tuned.tuning_count, tuned.check_count) == (25, 25)
    toml = render_settings_file(tuned, date="2026-01-01")
    tree = tomllib.loads(toml)
    assert tree["retrieve"]["dense_weight"] == tuned.values["retrieve.dense_weight"]
    assert "held-back half" in toml
    for text in (render_tuning_html(tuned, toml), render_tuning_markdown(tuned, toml)):
        assert "dense_weight" in text
        assert f"RAG_MIN_SIMILARITY={tuned.threshold:g}" in text
    assert {one["setting"] for one in tuning_as_dict(tuned)["swept"]} >= {
        "retrieve.bm25_k1",
        "retrieve.bm25_b",
        "retrieve.dense_weight",
        "retrieve.candidates",
        "refine.mmr_lambda",
    }
    for picture in render_tuning_html(tuned, toml).split("<svg")[1:]:
        ET.fromstring("<svg" + picture.split("</svg>")[0] + "</svg>")


def test_every_value_of_the_space_is_allowed() -> None:
    settings = load_settings(environ={}).settings
    for path, values in SPACE:
        for value in values:
            assert get_value(change_settings(settings, {path: value}), path) == value


def test_a_small_or_uncertain_gain_is_none() -> None:
    values = np.linspace(0, 1, 50)
    assert not is_gain(values, values)
    assert not is_gain(np.array([1.0]), np.array([0.0]))
    assert is_gain(values + 0.1, values)
    noise = np.where(np.arange(50) % 2 == 0, 0.5, -0.49)
    assert not is_gain(values + noise, values)


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    few = load_dataset(painted_things(tmp_path / "things")).take_sample(30)
    bench = Workbench(few, inside(tmp_path), embedder=HashEmbedder())
    with pytest.raises(InputError, match="too few judged questions"):
        asyncio.run(tune_settings(bench))


def test_the_threshold_loses_at_most_one_relevant_hit_in_a_hundred(bench: Workbench) -> None:
    curve = compute_threshold_curve([0.3] * 99 + [0.1], [0.2] * 50)
    assert recommend_threshold(curve) == 0.3
    assert recommend_threshold(curve, max_lost_share=0.0) == 0.1
    assert recommend_threshold([]) == 0.0
    assert compute_threshold_curve([], [0.1]) == []
    run = asyncio.run(run_questions(bench, bench.settings, Options(), name="run"))
    kept = measure_thresholds(run)
    shares = [one.relevant_kept for one in kept]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0


def test_a_pair_is_scored_once() -> None:
    class Encoder:
        seen = 0

        def score(self, question: str, texts: list[str]) -> list[float]:
            self.seen += len(texts)
            return [float(len(text)) for text in texts]

    encoder = Encoder()
    remembered = CachedScorer(encoder, {})
    assert remembered.score("q", ["a", "bb"]) == [1.0, 2.0]
    assert remembered.score("q", ["bb", "ccc", "a"]) == [2.0, 3.0, 1.0]
    assert encoder.seen == 3


def test_the_file_holds_what_tuning_began_with(tmp_path: Path, bench: Workbench) -> None:
    own = change_settings(
        bench.settings, {"retrieve.fusion": "rrf", "refine.duplicate_similarity": 1.0}
    )
    values = {"refine.min_similarity": 0.2, "retrieve.candidates": 50.0}
    tuned = TuningResult(bench.dataset, own, (), (), 0.2, values, 0.5, 0.6, (0.0, 0.2), 20, 20)
    file = tmp_path / "ragstone.toml"
    file.write_text(render_settings_file(tuned, date="today"), "utf-8")
    read = load_settings(config_file=file, environ={}).settings
    assert read.retrieve.fusion == "rrf"
    assert read.refine.duplicate_similarity == 1.0
    assert (read.refine.min_similarity, read.retrieve.candidates) == (0.2, 50)
