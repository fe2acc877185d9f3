"""Measure a server under load over real connections: answers per second, latency and memory.

    python bench/load_store.py bench/cache/store-50k                     once
    python bench/load.py bench/cache/store-50k --seconds 300 --parts hello own new model streams
    python bench/load.py bench/cache/store-50k --connections 1 2 8 64 256 1000 \\
        --parts hello health own new --seconds 10 --each 1

Every part runs `ragstone serve --workers N` as a person would, and clients in processes of their
own that keep their connections open and ask one question after the other. All of them together
have two cores.
  hello    a bare FastAPI application, the yardstick
  health   /healthz of Ragstone: what a request costs before any work; with one kept connection it
           shows a reply that waits for the client's acknowledgement (40 ms without TCP_NODELAY)
  own      answers quoted from the documents; every connection has its own `--each` questions, which
           nobody else asks, and asks them again and again
  new      the same, but no question is asked twice
  model    as `own`, with a stand-in model that answers after 2 s; times are without those 2 s
  burst    as many new questions as connections, all at the same moment, each asked once: when
           everything runs at once, the mean is near the time of the last
  streams  200 streams at once: how long a token takes from the model to the client
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
MODEL_SECONDS = 2.0
TOKENS, TOKEN_SECONDS = 40, 0.1
PARTS = ["hello", "health", "own", "new", "burst", "model", "streams"]


# ---- clients -------------------------------------------------------------------------------


async def _build_request(reader: Any, writer: Any, head: bytes, body: bytes) -> tuple[int, bytes]:
    writer.write(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    lower = answer.lower()
    at = lower.index(b"content-length:")
    length = int(lower[at + 15 : lower.index(b"\r\n", at)])
    return int(answer[9:12]), await reader.readexactly(length)


async def _ask(
    port: int, path: str, questions: list[str], until: float, out: dict, *, is_burst: bool = False
) -> None:
    is_get = path != "/v1/query"
    method = "GET" if is_get else "POST"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    ).encode()
    at = 0
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    except OSError as error:
        out["errors"].append(repr(error))
        return
    while time.time() < until and not (is_burst and at):
        body = b"" if is_get else json.dumps({"query": questions[at % len(questions)]}).encode()
        took = out["seconds" if at >= len(questions) else "first_seconds"]
        at += 1
        begun = time.perf_counter()
        try:
            status, content = await _build_request(reader, writer, head, body)
        except (OSError, EOFError, ValueError) as error:
            out["errors"].append(repr(error))
            return
        if status != 200:
            out["errors"].append(f"{status} {content[:200]!r}")
        elif not is_get and b'"degraded":[]' not in content:
            out["degraded"] += json.loads(content)["degraded"]
        took.append(time.perf_counter() - begun)
    writer.close()


async def _ask_streaming(port: int, question: str, out: dict) -> None:
    body = json.dumps({"query": question}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(
        f"POST /v1/query HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    while line := await reader.readline():
        if line.startswith(b"data:") and b'"token"' in line:
            now = time.time()
            for word in json.loads(line[5:])["content"].split():
                if word.startswith("t="):
                    out["delays"].append(now - float(word[2:]))
        elif line.startswith(b"data:") and b'"done"' in line:
            out["done"] += 1
            break
    writer.close()


def run_client(kind: str, port: int, questions: list[list[str]], until: float, pipe: Any) -> None:
    """Run the clients of one process; `questions` has one list per connection."""
    out: dict[str, Any] = {
        "first_seconds": [],
        "seconds": [],
        "errors": [],
        "delays": [],
        "done": 0,
        "degraded": [],
    }

    async def run() -> None:
        if kind == "streams":
            jobs = [_ask_streaming(port, own[0], out) for own in questions]
        else:
            path = {"hello": "/", "health": "/healthz"}.get(kind, "/v1/query")
            is_burst = kind == "burst"
            jobs = [_ask(port, path, own, until, out, is_burst=is_burst) for own in questions]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        out["errors"] += [repr(r) for r in results if isinstance(r, BaseException)]

    asyncio.run(run())
    pipe.send(out)


def run_clients(kind: str, port: int, questions: list[list[str]], until: float) -> dict:
    """Run two processes of clients, so that one core of clients is not the limit."""
    parts = []
    for number in range(2):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        given = (kind, port, questions[number::2], until, theirs)
        process = multiprocessing.Process(target=run_client, args=given)
        process.start()
        parts.append((process, ours))
    outs = []
    for process, pipe in parts:
        outs.append(pipe.recv())
        process.join()
    lists = ("first_seconds", "seconds", "errors", "delays", "degraded")
    found: dict[str, Any] = {name: [one for out in outs for one in out[name]] for name in lists}
    return found | {"done": sum(out["done"] for out in outs)}


def share_questions(questions: list[str], connections: int, each: int) -> list[list[str]]:
    """Share the questions out to the connections, each question once."""
    each = min(each, len(questions) // connections)
    return [questions[at : at + each] for at in range(0, connections * each, each)]


# ---- servers -------------------------------------------------------------------------------


def hello() -> Any:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/")
    async def root() -> dict[str, str]:
        return {"message": "Hello"}

    return app


async def _build_model_app(reader: Any, writer: Any, *, streams: bool) -> None:
    """Build an OpenAI-compatible server: it waits and answers, or sends a token every 100 ms."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lower = head.lower()
            at = lower.index(b"content-length:") + 15
            body = json.loads(await reader.readexactly(int(lower[at : lower.index(b"\r\n", at)])))
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            if "response_format" in body:  # an inner call, which a small fast model answers
                _send(writer, '{"intent": "question", "confidence": 1.0, "verdicts": []}')
            elif streams:
                for _ in range(TOKENS):
                    await asyncio.sleep(TOKEN_SECONDS)
                    _send(writer, f"t={time.time():.4f} ")
            else:
                await asyncio.sleep(MODEL_SECONDS)
                # Its question as a statement: an answer about something else would be refused.
                asked = body["messages"][-1]["content"].removeprefix("Is it true that ")
                said = " ".join(asked.replace("`", "").rstrip("?").split())
                _send(writer, f"{said} [Source 1].")
            _send(writer, "", last=True)
            data = b"data: [DONE]\n\n"
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def _send(writer: Any, text: str, *, last: bool = False) -> None:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop" if last else None}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    data = f"data: {json.dumps({**body, 'choices': [choice]})}\n\n".encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def run_model(port: int, streams: bool) -> None:
    async def run() -> None:
        server = await asyncio.start_server(
            lambda r, w: _build_model_app(r, w, streams=streams), "127.0.0.1", port, backlog=4096
        )
        await server.serve_forever()

    asyncio.run(run())


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def start_server(command: list[str], port: int, path: str, log: Path) -> Any:
    with log.open("wb") as out:
        running = subprocess.Popen(
            command, stderr=out, stdout=out, env=ENVIRONMENT, cwd=HERE, process_group=0
        )
        try:
            for _ in range(600):
                try:
                    with socket.create_connection(("127.0.0.1", port), 1) as probe:
                        probe.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
                        if probe.recv(12).endswith(b"200"):
                            break
                except OSError:
                    pass
                time.sleep(0.2)
            yield running
        finally:
            running.terminate()
            running.wait(90)


def read_memory_mb(pid: int) -> float:
    """Return the resident memory of a process and its children."""
    total, pids = 0.0, [pid]
    while pids:
        one = pids.pop()
        try:
            status = Path(f"/proc/{one}/status").read_text()
            pids += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
        total += next(
            (int(line.split()[1]) / 1000 for line in status.splitlines() if line[:6] == "VmRSS:"), 0
        )
    return total


# ---- the run -------------------------------------------------------------------------------


def summarise(out: dict, seconds: float, *, less: float = 0.0) -> dict[str, Any]:
    first, again = sorted(out["first_seconds"]), sorted(out["seconds"])

    def share(took: list[float], q: float) -> float | None:
        return round(took[min(len(took) - 1, int(q * len(took)))] - less, 4) if took else None

    whole = sorted([*first, *again])
    return {
        "requests": len(whole),
        "asked_first": len(first),
        "per_second": round(len(whole) / seconds, 1),
        "mean_s": round(sum(whole) / len(whole) - less, 4) if whole else None,
        "p50_s": share(whole, 0.5),
        "p95_s": share(whole, 0.95),
        "p99_s": share(whole, 0.99),
        "first_p95_s": share(first, 0.95),
        "again_p95_s": share(again, 0.95),
        "again": {
            "mean_s": round(sum(again) / len(again) - less, 4) if again else None,
            "p50_s": share(again, 0.5),
            "p99_s": share(again, 0.99),
        },
        "errors": len(out["errors"]),
        "first_error": out["errors"][:1],
        "degraded": Counter(out["degraded"]),
    }


def ragstone_command(store: Path, port: int, workers: int, *flags: str) -> list[str]:
    common = [
        "-d",
        str(store.resolve()),
        "--port",
        str(port),
        "--workers",
        str(workers),
        "-s",
        "observe.log_level=warning",
    ]
    return [sys.executable, "-m", "ragstone", "serve", *common, *flags]


def run_part(
    kind: str, connections: int, arguments: argparse.Namespace, questions: list[str]
) -> dict[str, Any]:
    port, folder = find_free_port(), Path(tempfile.mkdtemp(prefix="ragstone-load-"))
    log = folder / "server.log"
    if kind == "hello":
        command = [
            sys.executable,
            "-m",
            "uvicorn",
            "load:hello",
            "--factory",
            "--port",
            str(port),
            "--workers",
            str(arguments.workers),
            "--log-level",
            "warning",
            "--no-access-log",
            "--backlog",
            "4096",
        ]
        with start_server(command, port, "/", log):
            seconds = min(arguments.seconds, 30)
            out = run_clients("hello", port, [["x"]] * connections, time.time() + seconds)
            return summarise(out, seconds)
    flags: list[str] = list(arguments.flags)
    if kind in ("model", "streams"):
        model_port = find_free_port()
        model = multiprocessing.Process(
            target=run_model, args=(model_port, kind == "streams"), daemon=True
        )
        model.start()
        for name, value in {
            "provider.name": "openai",
            "provider.base_url": f"http://127.0.0.1:{model_port}/v1",
            "openai.api_key": "none",
            "understand.expand": "off",
            "check.max_iterations": "0",
        }.items():
            flags += ["-s", f"{name}={value}"]
    with start_server(
        ragstone_command(arguments.store, port, arguments.workers, *flags), port, "/readyz", log
    ) as running:
        run_clients("warm", port, share_questions(questions[-64:], 16, 4), time.time() + 5)
        if kind == "streams":
            out = run_clients("streams", port, share_questions(questions, arguments.streams, 1), 0)
            delays = sorted(out["delays"])
            return {
                "streams": out["done"],
                "tokens": len(delays),
                "errors": len(out["errors"]),
                "first_error": out["errors"][:1],
                "delay_p50_ms": round(1000 * delays[len(delays) // 2], 1) if delays else None,
                "delay_p95_ms": round(1000 * delays[int(len(delays) * 0.95)]) if delays else None,
                "delay_max_ms": round(1000 * delays[-1], 1) if delays else None,
            }
        each = {"new": len(questions), "burst": 1}.get(kind, arguments.each)
        asked = share_questions(questions, connections, each)
        memory = multiprocessing.Manager().list()
        watcher = multiprocessing.Process(target=_watch, args=(running.pid, memory), daemon=True)
        watcher.start()
        end = time.time() + arguments.seconds
        out = run_clients(kind, port, asked, end)
        watcher.terminate()
        less = MODEL_SECONDS if kind == "model" else 0.0
        found = summarise(out, time.time() - (end - arguments.seconds), less=less)
        if kind == "burst":
            found["mean_to_last"] = round(found["mean_s"] / max(out["first_seconds"]), 3)
        found["memory_mb"] = [round(m) for m in memory[:: max(1, len(memory) // 20)]]
        return found


def print_table(results: dict[str, Any]) -> None:
    """Print the latencies as Markdown; `own` without the first time of each question."""
    print("\n| part | connections | requests/s | mean ms | p50 ms | p99 ms | errors |")
    print("|---|---|---|---|---|---|---|")
    for kind in [kind for kind in results if kind != "streams"]:
        for connections, found in results[kind].items():
            times = found["again"] if kind in ("own", "model") else found
            shown = [times[name] for name in ("mean_s", "p50_s", "p99_s")]
            cells = " | ".join("–" if one is None else f"{1000 * one:.1f}" for one in shown)
            rate = found["per_second"]
            print(f"| {kind} | {connections:,} | {rate:,} | {cells} | {found['errors']} |")


def _watch(pid: int, memory: Any) -> None:
    while True:
        memory.append(read_memory_mb(pid))
        time.sleep(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("store", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, nargs="+", default=[1000])
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--each", type=int, default=5, help="questions of each connection")
    parser.add_argument("--cores", type=int, nargs="+", default=[0, 1], help="for all together")
    parser.add_argument("--flags", nargs="*", default=[], help="passed on to ragstone serve")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, arguments.cores)  # every process below inherits it
    questions = json.loads((arguments.store / "questions.json").read_text("utf-8"))
    results: dict[str, Any] = {}
    for kind in arguments.parts:
        for connections in [arguments.streams] if kind == "streams" else arguments.connections:
            found = run_part(kind, connections, arguments, questions)
            results.setdefault(kind, {})[connections] = found
            print(kind, connections, json.dumps(found), flush=True)
    print_table(results)
    (HERE / "out").mkdir(exist_ok=True)
    (HERE / "out" / "load.json").write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
