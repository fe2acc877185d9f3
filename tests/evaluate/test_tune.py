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
from ragstone.evaluate.compare import curve_of, recommended, threshold_curve
from ragstone.evaluate.datasets import load_dataset
from ragstone.evaluate.report import as_dict, html_page, markdown_page
from ragstone.evaluate.run import Options, run_questions
from ragstone.evaluate.summary import measures
from ragstone.evaluate.tune import (
    SPACE,
    RememberedScores,
    Sweeper,
    Tuned,
    is_gain,
    settings_file,
    tune,
    value_at,
)
from ragstone.evaluate.workbench import Workbench, changed
from ragstone.settings import load_settings
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
    questions = bench.dataset.questions[:20]
    sweeper = Sweeper(bench, questions)
    for values in ({}, {"retrieve.candidates": 5, "retrieve.dense_weight": 0.5}):
        settings = changed(bench.settings, values)
        quality = asyncio.run(sweeper.measure(settings, questions)).quality
        again = asyncio.run(sweeper.measure(settings, questions)).quality
        run = asyncio.run(run_questions(bench, settings, Options(), name="run"))
        wanted = [measures(run)["ndcg@10"][one.id] for one in questions]
        assert quality.tolist() == pytest.approx(wanted)
        assert again.tolist() == quality.tolist()
    assert asyncio.run(sweeper.cpu_ms(bench.settings, questions)) > 0
    sweeper.close()


def test_tuning_finds_what_is_better_and_writes_it_down(bench: Workbench) -> None:
    tuned = asyncio.run(tune(bench))
    assert tuned.after >= tuned.before
    assert tuned.values["retrieve.dense_weight"] < 1.0
    assert tuned.tuned_on + tuned.checked_on == 80
    toml = settings_file(tuned, when="2026-01-01")
    tree = tomllib.loads(toml)
    assert tree["retrieve"]["dense_weight"] == tuned.values["retrieve.dense_weight"]
    assert "held-back half" in toml
    for text in (html_page(tuned, toml), markdown_page(tuned, toml)):
        assert "dense_weight" in text
        assert f"RAG_MIN_SIMILARITY={tuned.threshold:g}" in text
    assert {one["setting"] for one in as_dict(tuned)["swept"]} >= {
        "retrieve.bm25_k1", "retrieve.bm25_b", "retrieve.dense_weight", "retrieve.candidates",
        "refine.mmr_lambda",
    }  # fmt: skip
    for picture in html_page(tuned, toml).split("<svg")[1:]:
        ET.fromstring("<svg" + picture.split("</svg>")[0] + "</svg>")


def test_every_value_of_the_space_is_allowed() -> None:
    settings = load_settings(environ={}).settings
    for path, values in SPACE:
        for value in values:
            assert value_at(changed(settings, {path: value}), path) == value


def test_a_small_or_uncertain_gain_is_none() -> None:
    values = np.linspace(0, 1, 50)
    assert not is_gain(values, values)
    assert not is_gain(np.array([1.0]), np.array([0.0]))
    assert is_gain(values + 0.1, values)
    noise = np.where(np.arange(50) % 2 == 0, 0.5, -0.49)
    assert not is_gain(values + noise, values)


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    few = load_dataset(painted_things(tmp_path / "things")).limited(30)
    bench = Workbench(few, inside(tmp_path), embedder=HashEmbedder())
    with pytest.raises(InputError, match="too few judged questions"):
        asyncio.run(tune(bench))


def test_the_threshold_loses_at_most_one_relevant_hit_in_a_hundred(bench: Workbench) -> None:
    curve = curve_of([0.3] * 99 + [0.1], [0.2] * 50)
    assert recommended(curve) == 0.3
    assert recommended(curve, most_lost=0.0) == 0.1
    assert recommended([]) == 0.0
    assert curve_of([], [0.1]) == []
    run = asyncio.run(run_questions(bench, bench.settings, Options(), name="run"))
    kept = threshold_curve(run)
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
    remembered = RememberedScores(encoder, {})
    assert remembered.score("q", ["a", "bb"]) == [1.0, 2.0]
    assert remembered.score("q", ["bb", "ccc", "a"]) == [2.0, 3.0, 1.0]
    assert encoder.seen == 3


def test_the_file_holds_what_tuning_began_with(tmp_path: Path, bench: Workbench) -> None:
    own = changed(bench.settings, {"retrieve.fusion": "rrf", "refine.duplicate_similarity": 1.0})
    values = {"refine.min_similarity": 0.2, "retrieve.candidates": 50.0}
    tuned = Tuned(bench.dataset, own, (), (), 0.2, values, 0.5, 0.6, (0.0, 0.2), 20, 20)
    file = tmp_path / "ragstone.toml"
    file.write_text(settings_file(tuned, when="today"), "utf-8")
    read = load_settings(config_file=file, environ={}).settings
    assert read.retrieve.fusion == "rrf"
    assert read.refine.duplicate_similarity == 1.0
    assert (read.refine.min_similarity, read.retrieve.candidates) == (0.2, 50)
