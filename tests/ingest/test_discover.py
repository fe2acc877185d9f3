"""Links out of a folder and special files are skipped with a reason."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from ragstone.ingest.discover import find_files

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
