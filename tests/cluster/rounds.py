"""Kill and freeze every part of a cluster under load; count what is lost, doubled or wrong.

    python -m tests.cluster.rounds 10                        every fault, ten rounds each
    python -m tests.cluster.rounds 1 'kill a worker' …       these

The load: questions one after the other and an upload every half second, to two servers, the other
one when one does not answer, as a proxy does. A part that is killed is started again after three
seconds; one that is frozen goes on after six. Every fault has its first round before any has its
second. After each round the table so far is printed, a row for all rounds of a fault; at the end
`doctor --deep` compares every chunk in Qdrant with the catalog. The row `nothing` has no fault: its
gap is what the machine itself causes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import Any

import httpx

from ..patience import LONG_S, wait_until
from .machines import Cluster, run_cluster, write_command

BIRDS = ("heron", "kestrel", "lapwing", "wagtail", "siskin", "dunlin", "gannet", "plover")
PARTS = ("a Qdrant node", "PostgreSQL", "Redis", "the object store", "a server", "a worker")
NOTHING = "nothing"
FAULTS = (NOTHING, *(f"{verb} {part}" for part in PARTS for verb in ("kill", "freeze")))
DOWN_S = {NOTHING: 6.0, "kill": 3.0, "freeze": 6.0}
REQUEST_S = 10.0
_FORM = {"collection": "gates"}


@dataclass(slots=True)
class Load:
    """Ask and upload until it is stopped; remember what was promised and what was said."""

    servers: list[str]
    prefix: str
    pause_s: float = 0.0
    accepted: dict[str, str] = field(default_factory=dict)
    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest_gap_s: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Load:
        for target in (self._ask, self._upload):
            thread = threading.Thread(target=target)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, at_least_s: float) -> None:
        """Wait some seconds, and until two more answers and an acknowledged upload have come."""
        answers, uploads = self.answered + 2, len(self.accepted) + 1
        time.sleep(at_least_s)
        wait_until(lambda: self.answered >= answers and len(self.accepted) >= uploads)

    def _ask(self) -> None:
        last, number = time.monotonic(), 0
        with httpx.Client(timeout=REQUEST_S) as client:
            while not self._stop.is_set():
                bird = BIRDS[number % len(BIRDS)]
                body = {"query": f"What is the code of the {bird} gate?", **_FORM}
                reply = self._send(client, number, "/v1/query", json=body)
                number += 1
                self._stop.wait(self.pause_s)
                if reply is None:
                    continue
                if code_of(bird) not in reply["answer"]:
                    self.wrong.append(f"{bird}: {reply['answer']!r}")
                now = time.monotonic()
                self.answered += 1
                self.longest_gap_s, last = max(self.longest_gap_s, now - last), now
        self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - last)

    def _upload(self) -> None:
        number = 0
        with httpx.Client(timeout=REQUEST_S) as client:
            while not self._stop.wait(0.5):
                name = f"{self.prefix}-{number}.txt"
                files = {"files": (name, text_of(name).encode())}
                reply = self._send(
                    client, number, "/v1/documents?wait=false", files=files, data=_FORM
                )
                number += 1
                if reply is not None:
                    self.accepted[name] = reply["upload_id"]

    def _send(self, client: httpx.Client, number: int, path: str, **body: Any) -> Any:
        """Send a request to one server, or to the other one; None if both refuse."""
        for server in (self.servers[number % 2], self.servers[1 - number % 2]):
            try:
                reply = client.post(server + path, **body)
            except httpx.TransportError as error:
                self.refused[type(error).__name__] += 1
                continue
            if reply.is_success:
                return reply.json()
            self.refused[str(reply.status_code)] += 1
        time.sleep(0.1)
        return None


@dataclass(slots=True)
class Outcome:
    """Count what became of one round, or of several."""

    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    answers: int = 0
    wrong: int = 0
    gaps_s: list[float] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def code_of(bird: str) -> str:
    return f"{1000 + 37 * BIRDS.index(bird)}"


def text_of(name: str) -> str:
    return f"The crate {name} stands on shelf {sum(map(ord, name))}."


def prepare(cluster: Cluster) -> None:
    """Upload what is asked for, and wait until it is found."""
    files = [
        ("files", (f"{bird}.txt", f"The code of the {bird} gate is {code_of(bird)}.".encode()))
        for bird in BIRDS
    ]
    url = cluster.servers[0]
    sent = httpx.post(f"{url}/v1/documents?wait=false", files=files, data=_FORM, timeout=LONG_S)
    wait_for(url, {"all": sent.json()["upload_id"]})
    body = {"query": f"What is the code of the {BIRDS[0]} gate?", **_FORM}
    for url in cluster.servers:  # the first question loads the models
        httpx.post(f"{url}/v1/query", json=body, timeout=LONG_S).raise_for_status()


def wait_for(server: str, accepted: dict[str, str]) -> int:
    """Wait until uploads are read; return how many failed."""
    end, failed = time.monotonic() + LONG_S, 0
    with httpx.Client(base_url=server, timeout=LONG_S) as client:
        for upload_id in accepted.values():
            while True:
                reply = client.get(f"/v1/uploads/{upload_id}")
                status = reply.json().get("status") if reply.is_success else "running"
                if status not in {"running", "receiving"}:
                    failed += status != "finished"
                    break
                assert time.monotonic() < end, "an upload is never read"
                time.sleep(0.2)
    return failed


class Nobody:
    """Stand for a part that nothing happens to."""

    def kill(self) -> None: ...
    def start(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


def run_round(
    cluster: Cluster, fault: str, number: int, *, at_least_s: float = 2.0, pause_s: float = 0.0
) -> Outcome:
    """Ask and upload, cause a fault and repair it; then compare with what was promised."""
    verb, _, name = fault.partition(" ")
    parts = cluster.parts.get(name) or [Nobody()]
    part = parts[number % len(parts)]
    with Load(cluster.servers, f"{fault.replace(' ', '-')}-{number}", pause_s) as load:
        load.wait_for_more(at_least_s)
        load.longest_gap_s = 0.0
        part.kill() if verb == "kill" else part.freeze()
        time.sleep(DOWN_S[verb])
        part.start() if verb == "kill" else part.thaw()
        load.wait_for_more(2 * at_least_s)
    failed = wait_for(cluster.servers[0], load.accepted)
    names = list_names(cluster)
    print(
        f"{fault}: refused {dict(load.refused)}, failed {failed}, gap {load.longest_gap_s:.1f} s",
        *load.wrong,
        sep="\n  ",
        file=sys.stderr,
        flush=True,
    )
    return Outcome(
        1,
        len(load.accepted),
        lost=len(load.accepted.keys() - names.keys()),
        doubled=names.total() - len(names),
        answers=load.answered,
        wrong=len(load.wrong),
        gaps_s=[load.longest_gap_s],
    )


def list_names(cluster: Cluster) -> Counter[str]:
    """Count the documents by name, those that could not be read left out."""
    names: Counter[str] = Counter()
    seen = 0
    with httpx.Client(base_url=cluster.servers[0], timeout=LONG_S) as client:
        while True:
            asked = {**_FORM, "skip": seen, "limit": 1000}
            page = client.get("/v1/documents", params=asked).raise_for_status().json()
            if not page:
                return names
            seen += len(page)
            names.update(one["name"] for one in page if one["status"] == "indexed")


def check_index(cluster: Cluster) -> int:
    """Compare every chunk in Qdrant with the catalog; return the exit code of the command."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["doctor", "--deep", "--check", "--data", folder]
        done = subprocess.run(
            write_command(words), env=cluster.environment, cwd=folder, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    print(done.stdout.decode(), file=sys.stderr, flush=True)
    return done.returncode


def format_table(totals: dict[str, Outcome]) -> str:
    lines = [
        "| fault | rounds | acknowledged | lost | doubled | answers | wrong | median gap s "
        "| longest gap s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for fault, one in totals.items():
        counts = one.rounds, one.acknowledged, one.lost, one.doubled, one.answers, one.wrong
        cells = " | ".join(map(str, counts))
        lines.append(
            f"| {fault} | {cells} | {statistics.median(one.gaps_s):.1f} | {max(one.gaps_s):.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    totals: dict[str, Outcome] = defaultdict(Outcome)
    with run_cluster() as cluster:
        prepare(cluster)
        for number in range(rounds):
            for fault in sys.argv[2:] or FAULTS:
                totals[fault].add(run_round(cluster, fault, number))
            print(f"{time.strftime('%X')}\n{format_table(totals)}\n", flush=True)
        print(f"doctor --deep --check: exit code {check_index(cluster)}")


if __name__ == "__main__":
    main()
