"""Test the spool: files of running processes stay, those of ended processes are deleted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ragstone.catalog.originals import InterruptedUpload, Spool

KILLED = """
import os, sys
from pathlib import Path
from ragstone.catalog.originals import Spool
spool = Spool(Path(sys.argv[1]))
spool.new_path().write_bytes(b"half a file")
spool.begin_upload("one", ["a.txt", "b.txt"])
spool.begin_upload("two", ["c.txt"])
spool.end_upload("two")
os._exit(9)
"""


def test_a_dead_process_leaves_its_unfinished_uploads_and_its_files_go(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 2, "a folder and its lock"
    assert list(Spool(tmp_path).clear_abandoned()) == [InterruptedUpload("one", ("a.txt", "b.txt"))]
    assert list(tmp_path.iterdir()) == []
    assert list(Spool(tmp_path).clear_abandoned()) == []


def test_a_living_spool_is_left_alone(tmp_path: Path) -> None:
    living = Spool(tmp_path)
    file = living.new_path()
    file.write_bytes(b"being received")
    living.begin_upload("one", ["a.txt"])
    assert list(Spool(tmp_path).clear_abandoned()) == []
    assert file.read_bytes() == b"being received"
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_a_note_that_was_cut_short_still_names_its_upload(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    next(tmp_path.glob("*/one.upload")).write_text('["a.t')
    assert list(Spool(tmp_path).clear_abandoned()) == [InterruptedUpload("one", ())]


def test_a_spool_that_was_closed_can_be_used_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.close()
    spool.new_path().write_bytes(b"x")
    spool.close()
    spool.end_upload("one")
    assert list(tmp_path.iterdir()) == []
