"""`ragstone serve` as a process: who it is open to, several workers, logs, metrics, a good end."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.errors import SettingsError
from ragstone.server.connections import open_listener
from ragstone.server.run import AppFactory, build_config
from ragstone.settings import load_settings

from ..cli.run import assert_refused, call
from ..cli.test_signals import started
from ..conftest import settings_in
from ..patience import LONG_S, until, wait_until
from ..providers.stand_in import served as model_served

pytestmark = pytest.mark.slow


class Served:
    """A running `ragstone serve`, its address and the lines of its log."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        assert process.stderr is not None
        first = process.stderr.readline()
        # No StopIteration here: in a thread of the event loop it would never arrive.
        shown = next((word for word in first.split() if word.startswith("http://")), "")
        assert shown, first
        self.address = shown.removesuffix("/mcp")
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        wait_until(self._answers)

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.address}/healthz", timeout=LONG_S).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.close()

    def close(self) -> int:
        code = self.process.wait(timeout=LONG_S)
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def logged(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [line for line in lines if line["event"] == event]


@contextmanager
def serving(*arguments: str | Path, cwd: Path) -> Iterator[Served]:
    served = Served(started("serve", "--port", "0", "-d", "data", *arguments, cwd=cwd))
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.close()


def test_another_address_than_loopback_is_refused_without_keys(tmp_path: Path) -> None:
    done = call("serve", "--host", "0.0.0.0", "--port", "0", "-d", "data", cwd=tmp_path)
    assert_refused(done, "open to everybody", "ragstone keys create", "--insecure", code=2)


def test_workers_share_documents_metrics_and_keys_and_log_no_text(tmp_path: Path) -> None:
    made = call("keys", "create", "root", "--role", "admin", "-d", "data", cwd=tmp_path)
    key = made.stdout.strip()
    with serving("--workers", "2", "--host", "0.0.0.0", cwd=tmp_path) as served:
        address = served.address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{address}/v1/documents", timeout=LONG_S).status_code == 401
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        sent = {"name": "gate.txt", "text": "The zebra gate is painted green."}
        reply = httpx.post(f"{address}/v1/documents", json=sent, headers=headers, timeout=LONG_S)
        assert reply.is_success
        for number in range(8):  # a new connection each: both workers are met
            # A question that was asked before would be answered without a search.
            asked = {"query": "What colour is the zebra gate?", "top_k": number + 1}
            reply = httpx.post(
                f"{address}/v1/query", json=asked, headers=headers | {"X-Request-ID": f"r{number}"},
                timeout=LONG_S,
            )  # fmt: skip
            assert "green" in reply.json()["answer"]
        page = httpx.get(f"{address}/metrics", headers=headers, timeout=LONG_S).text
        counted = re.search(r'ragstone_answers_total\{.*?status="answered"\} (\S+)', page)
        assert counted is not None
        assert float(counted[1]) == 8
        assert served.stop() == 0
    queries = served.logged("query")
    assert {line["request_id"] for line in queries} == {f"r{number}" for number in range(8)}
    assert {line["rag_enabled"] for line in queries} == {True}
    for event in ("initial retrieval", "after filter", "after rerank", "final context"):
        assert len(served.logged(event)) == 8
    log = "".join(served.lines)
    assert "zebra" not in log
    assert key not in log
    assert "Traceback" not in log


def test_workers_whose_supervisor_was_killed_free_the_port(tmp_path: Path) -> None:
    with serving("--workers", "2", cwd=tmp_path) as served:
        port = int(served.address.rpartition(":")[2])
        served.process.kill()
        served.close()  # also waits until the workers have closed its standard error

        def can_listen() -> bool:
            try:
                open_listener("127.0.0.1", port).close()
            except SettingsError:
                return False
            return True

        wait_until(can_listen)


async def test_a_server_that_is_told_to_stop_finishes_the_answer_it_writes(
    tmp_path: Path,
) -> None:
    (tmp_path / "lease.txt").write_text("Six months' notice ends the lease of the gate.")
    async with Engine(settings_in(tmp_path / "data")) as engine:
        await engine.ingest([tmp_path / "lease.txt"])
    async with model_served() as model:
        model.behaviours.append("drip")
        flags = [
            f"--set={name}={value}"
            for name, value in {
                "provider.name": "openai",
                "provider.base_url": f"{model.url}/v1",
                "openai.api_key": "none",
                "provider.probe": "false",
                "understand.expand": "off",
            }.items()
        ]
        served = await asyncio.to_thread(
            lambda: Served(started("serve", "--port", "0", "-d", "data", *flags, cwd=tmp_path))
        )
        try:
            async with httpx.AsyncClient(timeout=LONG_S) as client:
                asked = {"query": "How much notice ends the lease?"}
                running = asyncio.create_task(client.post(f"{served.address}/v1/query", json=asked))
                await until(lambda: bool(model.calls))
                served.process.send_signal(signal.SIGTERM)
                reply = await running
            assert reply.json()["metadata"]["llm_provider"] == "openai"
            assert "green" in reply.json()["answer"]
        finally:
            ended = await asyncio.to_thread(served.stop)
        assert ended == 0


def test_who_comes_before_the_models_are_loaded_waits_and_is_not_refused() -> None:
    listener = open_listener("127.0.0.1", 0)
    try:
        with socket.create_connection(listener.getsockname(), timeout=LONG_S):
            pass
    finally:
        listener.close()


def test_only_the_proxies_that_are_named_are_believed() -> None:
    named = load_settings(environ={"RAGSTONE_SERVER_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1"})
    assert build_config(AppFactory(named)).forwarded_allow_ips == "10.0.0.0/8, 192.0.2.1"
    assert build_config(AppFactory(load_settings(environ={}))).forwarded_allow_ips == "127.0.0.1"


def test_a_listener_takes_one_connection_at_a_time() -> None:
    with open_listener("127.0.0.1", 0) as listener:
        listener.listen()
        listener.setblocking(False)
        clients = [socket.create_connection(listener.getsockname()) for _ in range(2)]
        taken = [listener.accept()[0]]
        with pytest.raises(BlockingIOError):  # the next may be for another process
            listener.accept()
        taken.append(listener.accept()[0])
        for one in (*taken, *clients):
            one.close()
