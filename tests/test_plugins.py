"""Parts are found by name, a stranger's as well as our own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ragstone import plugins
from ragstone.errors import SettingsError


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that brings a provider, a reranker and one whose import fails."""
    (tmp_path / "stranger.py").write_text("def build(context):\n    return 'built'\n")
    (tmp_path / "broken.py").write_text("import a_package_that_is_not_there\n")
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ragstone.provider]\nmine = stranger:build\nbroken = broken:build\n"
        "[ragstone.reranker]\nnoop = stranger:build\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("stranger", None)


def test_the_built_in_parts_are_registered() -> None:
    assert "extractive" in plugins.available("provider")
    assert "noop" in plugins.available("reranker")
    assert {"text", "markdown", "pdf"} <= set(plugins.available("loader"))


def test_every_registered_part_can_be_imported() -> None:
    for slot in ("reranker", "loader"):
        for name in plugins.available(slot):
            assert callable(plugins.find(slot, name))


def test_a_strangers_part_is_found_by_its_name(stranger: Path) -> None:
    assert plugins.find("provider", "mine")(None) == "built"


def test_a_strangers_part_replaces_a_built_in_of_the_same_name(stranger: Path) -> None:
    assert plugins.find("reranker", "noop")(None) == "built"


def test_a_missing_package_is_named_with_the_extra_that_brings_it(stranger: Path) -> None:
    with pytest.raises(SettingsError, match="a_package_that_is_not_there") as refused:
        plugins.find("provider", "broken")
    assert "pip install 'ragstone[broken]'" in refused.value.hint


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="No provider named 'nobody'") as refused:
        plugins.find("provider", "nobody")
    assert "extractive" in refused.value.hint
