"""A data directory with two documents in it, made once by the command itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from .run import call


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `docs/` and `data/`; do not write to it."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "docs").mkdir()
    (folder / "docs" / "gate.txt").write_text(
        "The gate of the observatory is painted green. The café sells soup and bread."
    )
    (folder / "docs" / "lease.md").write_text(
        "# Lease\n\n## Notice\n\nEither party may end the lease with six months' notice.\n"
    )
    done = call("ingest", "docs", "--data", "data", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "2 files" in done.stdout
    return folder
