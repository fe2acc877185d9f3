"""Test the spool: files of running processes stay, those of ended processes are deleted."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from ragstone.catalog.originals import Originals, Spool

KILLED = """
import os, sys
from pathlib import Path
from ragstone.catalog.originals import Spool
spool = Spool(Path(sys.argv[1]))
spool.new_path().write_bytes(b"half a file")
print(spool.name, flush=True)
os._exit(9)
"""


def test_a_dead_process_leaves_its_name_and_its_files_go(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert len(list(tmp_path.iterdir())) == 2, "a folder and its lock"
    assert list(Spool(tmp_path).clear_abandoned()) == [done.stdout.strip()]
    assert list(tmp_path.iterdir()) == []
    assert list(Spool(tmp_path).clear_abandoned()) == []


def test_a_living_spool_is_left_alone(tmp_path: Path) -> None:
    living = Spool(tmp_path)
    file = living.new_path()
    file.write_bytes(b"being received")
    assert list(Spool(tmp_path).clear_abandoned()) == []
    assert file.read_bytes() == b"being received"
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_a_spool_with_unfinished_work_leaves_its_name(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    name = spool.name
    spool.close(is_finished=False)
    assert list(Spool(tmp_path).clear_abandoned()) == [name]
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_was_closed_can_be_used_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.close()
    spool.new_path().write_bytes(b"x")
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_received_files_are_moved_under_their_hashes(tmp_path: Path) -> None:
    originals = Originals(tmp_path)
    path = originals.new_path()
    path.write_bytes(b"one")
    file = originals.receive("a.txt", path)
    assert (file.sha256, file.size) == (hashlib.sha256(b"one").hexdigest(), 3)
    assert originals.files.find(file.sha256) is None
    originals.files.put({file.sha256: path})
    assert (originals.files.find(file.sha256) or path).read_bytes() == b"one"
    assert list(originals.files.list_hashes()) == [file.sha256]
    assert not path.exists()
