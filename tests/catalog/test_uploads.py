"""The files of a folder are found again by their paths, also by those of Windows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.uploads import SqlIntakeRecords
from ragstone.protocols import FileRecord


@pytest.mark.parametrize(
    ("root", "inside", "outside"),
    [
        ("/inbox", "/inbox/a/gate.txt", "/inbox-old/gate.txt"),
        ("C:\\inbox", "C:\\inbox\\a\\gate.txt", "C:\\inbox-old\\gate.txt"),
        ("C:\\", "C:\\gate.txt", "D:\\gate.txt"),
        ("\\\\server\\share", "\\\\server\\share\\gate.txt", "\\\\server\\shared\\gate.txt"),
    ],
)
def test_the_files_below_a_folder_are_those_in_it(
    tmp_path: Path, root: str, inside: str, outside: str
) -> None:
    with closing(SqlCatalog.in_directory(tmp_path)) as catalog:
        records = SqlIntakeRecords(catalog)
        paths = (inside, outside)
        records.save_files("default", [FileRecord(p, 1, 1, "sha", "f", "indexed") for p in paths])
        assert list(records.files_below("default", root)) == [inside]
