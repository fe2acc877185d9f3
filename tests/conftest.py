"""What the tests share: the real embedder, loaded once, and engines in temporary directories."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Generator, Iterator
from importlib import resources
from pathlib import Path

import hypothesis
import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import Settings, load_settings

# A run in the background ignores Ctrl-C and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Coverage makes a process half as slow again, and what the tests start runs what other tests
# measure: only the workers of the test run are measured.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in [name for name in os.environ if name.startswith("COVERAGE_PROCESS_")]:
        del os.environ[name]

# Time on the wall says nothing on a machine that has other work, and a run may not end by luck:
# the examples are the same each time. New ones are tried with `--hypothesis-profile search`.
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.register_profile("patient", deadline=None, derandomize=True)
hypothesis.settings.load_profile("patient")

# Fixtures that start a server of somebody else's.
SERVERS = {"postgres_url", "qdrant_url", "redis"}

# Empty: without a file of its own a test would read ragstone.toml of the working directory.
NO_SETTINGS = Path(__file__).with_name("no_settings.toml")

SAMPLES = Path(str(resources.files("ragstone.samples") / "documents"))


def settings_in(directory: Path, **flags: object) -> Settings:
    """Settings that nothing outside the test can change. Every question is answered anew."""
    own = {"data.directory": directory, "data.models": directory / "models"}
    flags = {**own, "data.answer_cache": 0, **flags}
    return load_settings(flags=flags, config_file=NO_SETTINGS, environ={}).settings


@pytest.fixture(scope="session", autouse=True)
def empty_working_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the tests where no ragstone.toml is: `ragstone setup` writes one into a checkout.

    Processes that a test starts begin there too, unless it names another folder.
    """
    with contextlib.chdir(tmp_path_factory.mktemp("empty")):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a browser or a server by where it stands and what it asks for, and put the
    files first that take long, so that no worker is left alone with one at the end."""
    for item in items:
        if "browser" in item.path.relative_to(Path(__file__).parent).parts:
            item.add_marker(pytest.mark.browser)
        if SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)
    weights: dict[Path, int] = {}
    for item in items:
        weights[item.path] = max(weights.get(item.path, 0), _weigh(item))
    items.sort(key=lambda item: -weights[item.path])


# What these run is the code that other tests measure, and measuring takes a third of their time.
UNMEASURED = ("browser", "cluster", "faults", "golden", "test_docs.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop measuring coverage while a test runs that measures nothing new."""
    coverage = sys.modules.get("coverage")
    measuring = coverage and coverage.Coverage.current()
    place = item.path.relative_to(Path(__file__).parent).parts[0]
    if not measuring or place not in UNMEASURED:
        return (yield)
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()


def _weigh(item: pytest.Item) -> int:
    """Guess how long a test takes: by its markers; those beside this file start processes."""
    if any(item.get_closest_marker(name) for name in ("slow", "browser", "servers")):
        return 2
    return int(item.path.parent == Path(__file__).parent)


@pytest.fixture(scope="session")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder()


@pytest.fixture
def engine(tmp_path: Path, embedder: OnnxEmbedder) -> Iterator[Engine]:
    """An empty engine."""
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def sample_engine(
    tmp_path_factory: pytest.TempPathFactory, embedder: OnnxEmbedder
) -> Iterator[Engine]:
    """An engine with the sample documents in its default collection; do not write to it."""
    engine = Engine(settings_in(tmp_path_factory.mktemp("samples")), embedder=embedder)
    asyncio.run(engine.ingest([SAMPLES]))
    yield engine
    engine.close()
