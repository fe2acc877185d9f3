"""Parts are found by name, those of other packages as well as our own."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

from ragstone import plugins
from ragstone.errors import SettingsError

ROOT = Path(__file__).parents[1]
GROUPS = set(plugins.GROUPS.values())
EXTRA = re.compile(r"ragstone\[([^\]]*)\]")


@pytest.fixture
def third_party_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    assert "extractive" in plugins.list_parts("provider")
    assert "noop" in plugins.list_parts("reranker")
    assert {"text", "markdown", "pdf"} <= set(plugins.list_parts("loader"))


def test_the_installed_parts_are_those_of_pyproject() -> None:
    """An entry point is read from the installed metadata, not from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = {
        (group, name, value)
        for group, parts in project["entry-points"].items()
        for name, value in parts.items()
    }
    found = distribution("ragstone").entry_points
    installed = {(one.group, one.name, one.value) for one in found if one.group in GROUPS}
    assert stated == installed, "Install again after an edit of pyproject.toml: make check"


def test_every_registered_part_can_be_imported() -> None:
    for slot in ("reranker", "loader"):
        for name in plugins.list_parts(slot):
            assert callable(plugins.find_part(slot, name))


def test_a_part_of_another_package_is_found_by_its_name(third_party_package: Path) -> None:
    assert plugins.find_part("provider", "mine")(None) == "built"


def test_the_installed_packages_are_read_once(
    third_party_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "mine" in plugins.list_parts("provider")
    monkeypatch.delattr(plugins, "entry_points")
    assert "noop" in plugins.list_parts("reranker")
    assert "mine" in plugins.list_parts("provider")


def test_a_package_that_is_installed_meanwhile_is_found(third_party_package: Path) -> None:
    with pytest.raises(SettingsError, match="No provider named 'later'"):
        plugins.find_part("provider", "later")
    info = third_party_package / "newcomer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ragstone.provider]\nlater = stranger:build\n")
    assert plugins.find_part("provider", "later")(None) == "built"


def test_a_part_of_another_package_replaces_a_built_in_of_the_same_name(
    third_party_package: Path,
) -> None:
    assert plugins.find_part("reranker", "noop")(None) == "built"


def test_a_package_that_a_plug_in_lacks_is_named_with_the_plug_in(
    third_party_package: Path,
) -> None:
    with pytest.raises(SettingsError, match="a_package_that_is_not_there") as refused:
        plugins.find_part("provider", "broken")
    assert "'stranger'" in refused.value.hint
    assert "pip install 'a_package_that_is_not_there'" in refused.value.hint
    assert "ragstone[" not in refused.value.hint


OURS = [
    (slot, name)
    for slot in plugins.GROUPS
    for name, point in plugins.list_parts(slot).items()
    if point.dist and point.dist.name == "ragstone"
]


def test_the_hint_for_a_part_of_ours_names_an_extra_only_if_it_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: EntryPoint) -> None:
        raise ModuleNotFoundError("No module named 'lost'", name="lost")

    monkeypatch.setattr(EntryPoint, "load", fail)
    for slot, name in OURS:
        with pytest.raises(SettingsError, match="'lost'") as refused:
            plugins.find_part(slot, name)
        named = EXTRA.findall(refused.value.hint)
        assert named == ([name] if name in plugins.list_extras() else [])
        assert named or "--force-reinstall ragstone" in refused.value.hint


def test_every_extra_that_a_message_or_a_page_names_exists() -> None:
    files = [*(ROOT / "src").rglob("*.py")]
    files += [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        (extra.strip(), path.name)
        for path in files
        for listed in EXTRA.findall(path.read_text("utf-8"))
        for extra in listed.split(",")
        if "{" not in extra  # `plugins.py` itself: its names are walked above
    }
    assert len(named) > 10
    assert not {(extra, file) for extra, file in named if extra not in plugins.list_extras()}


def test_every_extra_is_one_that_somebody_is_told_of() -> None:
    """An extra that no page and no message names would be found by nobody."""
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text("utf-8")
    for extra in plugins.list_extras():
        assert f"`{extra}`" in page, f"docs/reference/dependencies.md lacks the extra {extra}"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="No provider named 'nobody'") as refused:
        plugins.find_part("provider", "nobody")
    assert "extractive" in refused.value.hint
