"""Every question is asked once, beside the user's own documents, and what is known is not asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import ragstone
from ragstone.engine import Engine
from ragstone.errors import InputError, SettingsError
from ragstone.evaluate.datasets import Dataset, GivenAnswer, Passage, Question, Target, load_dataset
from ragstone.evaluate.run import Options, Outcome, Run, run_questions
from ragstone.evaluate.summary import measure_run, summarise_run
from ragstone.evaluate.workbench import Workbench, list_program_files
from ragstone.protocols import Vectors
from ragstone.settings.change import change_settings
from ragstone.testing import HashEmbedder

from .build import inside, painted_things


class CountingEmbedder(HashEmbedder):
    """Counts the texts that it is given, and breaks down after so many."""

    def __init__(self, most: int = 10**9) -> None:
        super().__init__()
        self.texts = 0
        self.most = most

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.texts + len(texts) > self.most:
            raise KeyboardInterrupt
        self.texts += len(texts)
        return super().embed(texts)


def ran(bench: Workbench, **options: object) -> Run:
    bench.prepare()
    return asyncio.run(
        run_questions(bench, bench.settings, Options(**options), name="test")  # type: ignore[arg-type]
    )


@pytest.fixture
def things(tmp_path: Path) -> Dataset:
    return load_dataset(painted_things(tmp_path / "things")).take_sample(12)


def test_a_dataset_is_asked_beside_the_users_own_documents(tmp_path: Path, things: Dataset) -> None:
    settings = inside(tmp_path)
    run = ran(Workbench(things, settings, embedder=HashEmbedder()))
    assert [one.id for one in run.outcomes] == [one.id for one in things.questions]
    assert summarise_run(run).figure("hit@10").mean == 1.0  # type: ignore[union-attr]
    assert not settings.data.directory.exists()
    way = run.outcomes[0].target_steps[things.questions[0].targets[0].label]
    assert [step["stage"] for step in way][:3] == ["retrieve.semantic", "retrieve.keyword", "fuse"]


def test_a_second_run_asks_nothing(tmp_path: Path, things: Dataset) -> None:
    first = ran(Workbench(things, inside(tmp_path), embedder=CountingEmbedder()))
    idle = CountingEmbedder(most=0)
    again = ran(Workbench(things, inside(tmp_path), embedder=idle))
    assert idle.texts == 0
    assert again.outcomes == first.outcomes
    assert again.directory == first.directory


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, things: Dataset) -> None:
    whole = ran(Workbench(things, inside(tmp_path), embedder=HashEmbedder()))
    lines = (whole.directory / "results.jsonl").read_bytes().splitlines(keepends=True)
    (whole.directory / "results.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:40])
    counting = CountingEmbedder()
    again = ran(Workbench(things, inside(tmp_path), embedder=counting))
    assert counting.texts == len(lines) - 5
    assert [one.ranking for one in again.outcomes] == [one.ranking for one in whole.outcomes]


def test_an_embedding_that_was_stopped_goes_on(tmp_path: Path) -> None:
    passages = tuple(Passage(f"p{at}", f"Text number {at}.") for at in range(100))
    question = Question("q", "Which text is number 7?", (Target("p7", document="p7"),))
    dataset = Dataset("texts", (question,), passages)
    with pytest.raises(KeyboardInterrupt):
        Workbench(dataset, inside(tmp_path), embedder=CountingEmbedder(most=80)).prepare()
    rest = CountingEmbedder()
    Workbench(dataset, inside(tmp_path), embedder=rest).prepare()
    assert rest.texts == 100 - 64 + 1  # one batch was stored; the first call warms the model


def test_other_settings_are_another_run(tmp_path: Path, things: Dataset) -> None:
    bench = Workbench(things, inside(tmp_path), embedder=HashEmbedder())
    first = ran(bench)
    other = change_settings(bench.settings, {"retrieve.dense_weight": 0.1})
    second = asyncio.run(run_questions(bench, other, Options(), name="other"))
    assert second.directory != first.directory
    same = change_settings(bench.settings, {"server.port": 1, "journal.query_log": "off"})
    assert asyncio.run(run_questions(bench, same, Options(), name="x")).directory == first.directory


def test_a_judge_needs_a_model(tmp_path: Path, things: Dataset) -> None:
    with pytest.raises(SettingsError, match="--judge needs a provider"):
        ran(Workbench(things, inside(tmp_path), embedder=HashEmbedder()), judge=True)


def test_an_empty_collection_is_a_sentence(tmp_path: Path) -> None:
    dataset = Dataset("own", (Question("q", "What now?"),))
    with pytest.raises(InputError, match="is empty"):
        ran(Workbench(dataset, inside(tmp_path), embedder=HashEmbedder()))


def test_a_question_that_fails_is_an_outcome_and_is_tried_again(
    tmp_path: Path, things: Dataset
) -> None:
    spoilt = replace(things, questions=(*things.questions, Question("bad", "?")))
    run = ran(Workbench(spoilt, inside(tmp_path), embedder=HashEmbedder()))
    assert summarise_run(run).errors == 1
    assert "at least 3 characters" in run.by_id["bad"].error or run.by_id["bad"].error
    counting = CountingEmbedder()
    ran(Workbench(spoilt, inside(tmp_path), embedder=counting))
    assert counting.texts == 0  # refused before it is embedded, and nothing else is asked


def test_answers_are_measured_and_the_journal_stays_empty(tmp_path: Path) -> None:
    dataset = load_dataset(painted_things(tmp_path / "things", answers=True)).take_sample(30)
    last = Question("none", "Who painted the submarine of the emperor?", answerable=False)
    few = replace(dataset, questions=(*dataset.questions[:6], last))
    bench = Workbench(few, inside(tmp_path), embedder=HashEmbedder())
    run = ran(bench, answers=True)
    found = measure_run(run)
    assert {"exact_match", "f1", "containment", "groundedness", "decided_right"} <= set(found)
    assert summarise_run(run).figure("containment").mean >= 0.5  # type: ignore[union-attr]
    assert found["decided_right"].keys() == {one.id for one in few.questions}
    assert "ground.generate" in summarise_run(run).stages
    engine = Engine(bench.adapt_settings(bench.settings), embedder=HashEmbedder())
    assert engine.catalog.queries() == []
    engine.close()


def test_another_systems_answer_is_judged_as_it_stands(tmp_path: Path) -> None:
    context = "The gate of the town is in the north, beside the old mill."
    wanted = (Target("reference 1", text=context),)
    good = GivenAnswer(
        "The gate of the town is in the north.", ("Something else entirely.", context)
    )
    bad = GivenAnswer("The gate is made of solid gold from Peru.", ("Something else entirely.",))
    dataset = Dataset(
        "ragas",
        (
            Question("good", "Where?", wanted, ("in the north",), True, given_answer=good),
            Question("bad", "Where?", wanted, ("in the north",), True, given_answer=bad),
        ),
        (Passage("p", "filler"),),
    )
    run = ran(Workbench(dataset, inside(tmp_path), embedder=HashEmbedder()))
    assert run.by_id["good"].ranking == ("context 1", "reference 1")
    found = measure_run(run)
    assert found["mrr@10"] == {"good": 0.5, "bad": 0.0}
    assert found["groundedness"]["good"] > found["groundedness"]["bad"]
    assert found["containment"] == {"good": 1.0, "bad": 0.0}


def test_an_outcome_survives_being_written_down() -> None:
    outcome = Outcome("q", ("a",), (("a", 1.0, None),), answer="Ä", cost_usd=0.5, cited=("a",))
    assert Outcome.from_line(outcome.as_line()) == outcome


def test_samples_with_responses_need_no_documents(tmp_path: Path) -> None:
    given = GivenAnswer("The gate is in the north.", ("The gate of the town is in the north.",))
    dataset = Dataset("ragas", (Question("q", "Where?", given_answer=given),))
    run = ran(Workbench(dataset, inside(tmp_path), embedder=HashEmbedder()))
    assert run.outcomes[0].groundedness > 0


def test_the_embedder_is_the_one_that_the_settings_name(tmp_path: Path, things: Dataset) -> None:
    settings = inside(tmp_path, **{"embed.name": "openai", "embed.api_key": "k"})
    assert Workbench(things, settings).embedder.name.startswith("openai/")
    assert Workbench(things, inside(tmp_path)).directory != Workbench(things, settings).directory


def test_a_changed_program_is_another_run() -> None:
    root = Path(ragstone.__file__).parent
    names = {path.relative_to(root).as_posix() for path in list_program_files(root)}
    imported = {
        *("engine.py", "filters.py", "plugins.py", "text.py", "trace.py", "types.py"),
        *("evaluate/run.py", "prompts/judge.md", "query/answer.py", "settings/sources.py"),
        "index/function_words.toml",
    }
    assert imported <= names
    assert not any(name.startswith(("cli/", "integrations/", "server/")) for name in names)


def test_a_work_directory_that_cannot_be_used_is_a_sentence(
    tmp_path: Path, things: Dataset
) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(InputError, match=r"directory of evaluations .* is a file, not a directory"):
        Workbench(things, inside(tmp_path), embedder=HashEmbedder())


def test_a_long_document_is_split_by_the_users_own_settings(tmp_path: Path) -> None:
    sentences = [f"Sentence number {n} of the report says little." for n in range(60)]
    text = " ".join([*sentences, "The pump weighs 12 kg."])
    passages = (Passage("report", text, "Report"),)
    question = Question(
        "q", "What does the pump weigh?", targets=(Target("report", document="report"),)
    )
    dataset = Dataset("long", questions=(question,), passages=passages)
    settings = change_settings(inside(tmp_path), {"ingest.chunk_tokens": 60})
    bench = Workbench(dataset, settings, embedder=HashEmbedder())
    other = Workbench(dataset, inside(tmp_path), embedder=HashEmbedder())
    assert bench.directory != other.directory
    run = ran(bench)
    engine = bench.open_engine(settings)
    try:
        chunks = engine.catalog.counts(bench.collection).chunks
    finally:
        engine.close()
    assert chunks > 5
    assert run.outcomes[0].ranking[0] == "report"
