"""What is found below folders and by patterns, and what is skipped with a reason."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from ragstone.errors import IngestError
from ragstone.ingest.discover import find_files, name_source

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it has no pipes in folders")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for one in (outside, folder):
        one.mkdir()
    (outside / "secret.txt").write_text("secret")
    (folder / "a.txt").write_text("a")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "up.txt").symlink_to(Path("..", "outside", "secret.txt"))
    (folder / "inside.txt").symlink_to(folder / "a.txt")
    (folder / "sub").symlink_to(outside)
    found = find_files([folder])
    assert [file.name for file in found.files] == ["a.txt", "inside.txt"]
    reason = "It is a link to a place outside the folder."
    assert dict(found.skipped) == {"link.txt": reason, "up.txt": reason, "sub": reason}


def test_a_folder_that_is_given_as_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert [file.name for file in find_files([tmp_path / "link"]).files] == ["a.txt"]


def test_pipes_and_sockets_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a")
    os.mkfifo(tmp_path / "pipe.txt")
    monkeypatch.chdir(tmp_path)  # the path of a socket may have no more than 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.txt")
        found = find_files([tmp_path, tmp_path / "pipe.txt"])
    assert [file.name for file in found.files] == ["a.txt"]
    assert set(dict(found.skipped)) == {"pipe.txt", "socket.txt", str(tmp_path / "pipe.txt")}
    assert all("pipe" in reason for _, reason in found.skipped)


def test_a_link_to_nothing_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere" / "gone.txt")
    found = find_files([tmp_path])
    assert dict(found.skipped) == {"gone.txt": "It is a link to a place that does not exist."}


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(IngestError, match=r"No file matches '.*\*\.xyz'") as raised:
        find_files([tmp_path / "*.xyz"])
    assert raised.value.hint == "Check the spelling of the pattern."
    assert find_files([tmp_path / "*.xyz"], may_be_empty=True).files == ()


@pytest.mark.parametrize("name", ["missing", "*.xyz"])
def test_one_wrong_path_among_several_says_that_nothing_was_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(IngestError) as raised:
        find_files([tmp_path / "a.txt", tmp_path / name])
    assert raised.value.hint.startswith("Nothing was read. Check the spelling")


def test_files_of_an_unknown_type_are_named_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("a.txt", "blob.bin", "photo.jpg", ".hidden", ".git.bin"):
        (tmp_path / name).write_bytes(b"a")
    found = find_files([tmp_path])
    assert [file.name for file in found.files] == ["a.txt"]
    assert found.left_out == ("blob.bin", "photo.jpg")


def test_a_folder_that_cannot_be_listed_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sub = tmp_path.resolve() / "sub"
    sub.mkdir()
    (sub / "b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    refuse_to_list(monkeypatch, sub)
    found = find_files([tmp_path])
    assert [file.name for file in found.files] == ["a.txt"]
    (folder,) = name_source(found, "nas").unread
    assert (folder.name, folder.source) == ("sub", f"nas:{sub}")
    assert "cannot be read: Permission denied" in folder.error
    assert folder.holds(f"nas:{sub}/b.txt")
    assert not folder.holds(f"nas:{sub}2/b.txt")


def refuse_to_list(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    scan = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
