"""Kill a running server again and again, and count what was lost.

    python bench/kills.py --kills 100 --kinds upload,ingest,delete,reindex,backup

Every kill is a SIGKILL at a random moment while the server (and `ragstone reindex` or
`ragstone backup` beside it) is at work. After each restart the script waits until the server has
read what it had accepted, and compares the data directory with what the replies promised.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tarfile
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

import ragstone.server.run  # noqa: F401  imported once, so that a forked server starts at once
from ragstone.cli.main import app

WAIT_S = 120.0
IDLE_START_S = 2.0
FAULTS = ("lost", "undeleted", "doubled", "half", "originals missing", "boxes missing")


def make_text(name: str) -> bytes:
    """Return a text of about two chunks that no other name has."""
    return "\n\n".join(
        f"Shelf {part} of {name} holds {part * 7} bolts." for part in range(30)
    ).encode()


def make_pdf(name: str) -> bytes:
    """Return a PDF of one page with ten lines."""
    lines = "".join(f"({name}: line {at} of the page, with some words.) Tj T* " for at in range(10))
    stream = f"BT /F1 12 Tf 14 TL 50 700 Td {lines}ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R "
        b"/Resources << /Font << /F1 4 0 R >> >> >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    return body + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        start,
    )


def fork_command(log: Path, *arguments: str) -> int:
    """Run a command of Ragstone in a forked process of this one; return its id.

    Its messages go to `log`, and at SIGUSR1 also the stacks of its threads.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        source = os.open(os.devnull, os.O_RDONLY)
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for standard, descriptor in enumerate((source, sink, sink)):
            os.dup2(descriptor, standard)
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        sys.argv = ["ragstone", *arguments]
        app()
    except SystemExit:
        pass
    except BaseException:  # noqa: BLE001  the log tells why a server has ended
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)


def describe_process(pid: int, log: Path) -> str:
    """Return what a process that does not answer is doing: its state, its stacks, its log."""
    if os.waitpid(pid, os.WNOHANG)[0]:
        return f"it has ended; its log:\n{log.read_text(errors='replace')}"
    with suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
    time.sleep(2)
    found = []
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        for name in ("wchan", "syscall"):
            with suppress(OSError):
                found.append(f"{task.name} {name}: {(task / name).read_text().strip()}")
    return "\n".join([*found, "its log:", log.read_text(errors="replace")])


@dataclass
class Bench:
    """Hold one data directory, what was promised about it, and the faults that were found."""

    folder: Path
    chance: random.Random
    stored: dict[str, bytes] = field(default_factory=dict)
    """Documents that a reply promised, by name."""
    maybe: set[str] = field(default_factory=set)
    """Documents whose request had no reply: they may be there or not."""
    deleted: set[str] = field(default_factory=set)
    uploads: set[str] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    resumed: int = 0
    backups: int = 0
    count: int = 0
    address: str = ""
    slowness: float = 1.0
    """How many times longer than on an idle machine the server took to start."""
    children: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        # The server chooses its port: one that is free here may be taken when the server needs it.
        log = self.folder / "server.log"
        log.write_bytes(b"")
        server = fork_command(log, "serve", "--port", "0", "--data", str(self.data))
        self.children = [server]
        begun = time.monotonic()
        deadline = begun + WAIT_S
        while True:
            if shown := re.search(r"http://127\.0\.0\.1:\d+(?= )", log.read_text()):
                self.address = shown[0]
                with suppress(httpx.TransportError):
                    if httpx.get(self.address + "/healthz", timeout=5).is_success:
                        # A kill after the same time would meet a busy machine before its work.
                        self.slowness = max(1.0, (time.monotonic() - begun) / IDLE_START_S)
                        return
            if time.monotonic() > deadline or os.waitid(
                os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT
            ):
                why = describe_process(server, log)
                raise AssertionError(f"the server does not start: {why}")
            time.sleep(0.1)

    def kill(self) -> None:
        for child in self.children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.children = []

    def make_files(self, count: int) -> list[tuple[str, bytes]]:
        files = []
        for _ in range(count):
            self.count += 1
            make = make_pdf if self.count % 2 else make_text
            name = f"{self.count:05}{'.pdf' if self.count % 2 else '.txt'}"
            files.append((name, make(name)))
        return files

    def send(self, files: list[tuple[str, bytes]], *, wait: bool = False) -> None:
        """Send files; note what the reply promises, or that there was none."""
        form = [("files", (name, content)) for name, content in files]
        try:
            reply = httpx.post(
                f"{self.address}/v1/documents", params={"wait": wait}, files=form, timeout=WAIT_S
            )
        except httpx.TransportError:
            with self.lock:
                self.maybe |= {name for name, _ in files}
            return
        if reply.is_success:
            with self.lock:
                self.acknowledged += len(files)
                self.stored |= dict(files)
                self.uploads.add(reply.json()["upload_id"])

    def delete(self, document_id: str, name: str) -> None:
        with self.lock:
            self.stored.pop(name, None)
            self.maybe.add(name)
        with suppress(httpx.TransportError):
            reply = httpx.delete(f"{self.address}/v1/documents/{document_id}", timeout=WAIT_S)
            if reply.status_code == 204:
                with self.lock:
                    self.maybe.discard(name)
                    self.deleted.add(name)

    def finish_uploads(self) -> None:
        """Wait until the server has read all that was accepted before it was killed."""
        deadline = time.monotonic() + WAIT_S
        for upload_id in sorted(self.uploads):
            while True:
                found = httpx.get(f"{self.address}/v1/uploads/{upload_id}", timeout=WAIT_S).json()
                if found["status"] != "running":
                    break
                self.resumed += 1
                assert time.monotonic() < deadline, "an upload does not end"
                time.sleep(0.1)
        self.uploads.clear()

    def check(self) -> None:
        """Compare the catalog and the originals with the promises."""
        with closing(sqlite3.connect(self.data / "catalog.db")) as catalog:
            found = self.check_catalog(catalog)
        for name, sha256, media_type, boxes in found:
            if name in self.stored and sha256 != hashlib.sha256(self.stored[name]).hexdigest():
                self.faults["half"] += 1
            original = self.data / "originals" / sha256[:2] / sha256
            if not original.is_file() or _sha256(original) != sha256:
                self.faults["originals missing"] += 1
            if media_type == "application/pdf" and not boxes:
                self.faults["boxes missing"] += 1
        names = {name for name, *_ in found}
        self.faults["lost"] += len(self.stored.keys() - names)
        self.faults["undeleted"] += len(self.deleted & names)
        for name in list(self.stored):
            if name not in names:
                del self.stored[name]  # counted once

    def check_catalog(self, catalog: sqlite3.Connection) -> list[tuple[str, str, str, int]]:
        doubled = """SELECT count(*) FROM (SELECT name FROM documents WHERE retired_at IS NULL
            GROUP BY name HAVING count(*) > 1 UNION ALL SELECT name FROM upload_files
            GROUP BY upload_id, name HAVING count(*) > 1)"""
        half = """SELECT count(*) FROM documents d WHERE retired_at IS NULL AND (status != 'indexed'
            OR chunk_count != (SELECT count(*) FROM chunks WHERE document_id = d.id
            AND key BETWEEN d.first_key AND d.first_key + d.chunk_count - 1))"""
        self.faults["doubled"] += catalog.execute(doubled).fetchone()[0]
        self.faults["half"] += catalog.execute(half).fetchone()[0]
        return catalog.execute(
            """SELECT name, sha256, media_type, EXISTS (SELECT 1 FROM page_lines
            WHERE document_id = documents.id) FROM documents WHERE retired_at IS NULL"""
        ).fetchall()

    def check_backup(self, target: Path) -> None:
        """A backup that was finished holds the original of every document in it."""
        with tarfile.open(target) as archive:
            names = set(archive.getnames())
            archive.extract("catalog.db", self.folder / "copy", filter="data")
        with closing(sqlite3.connect(self.folder / "copy" / "catalog.db")) as catalog:
            wanted = catalog.execute("SELECT sha256 FROM documents WHERE retired_at IS NULL")
            for (sha256,) in wanted:
                if f"originals/{sha256[:2]}/{sha256}" not in names:
                    self.faults["originals missing"] += 1
        self.backups += 1
        target.unlink()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_threads(jobs: list[Callable[[], None]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    return threads


def begin_upload(bench: Bench) -> tuple[list[threading.Thread], float]:
    def work() -> None:
        for _ in range(3):
            with bench.lock:
                files = bench.make_files(bench.chance.randint(1, 3))
            bench.send(files)

    return run_threads([work] * 3), 1.2


def begin_ingest(bench: Bench) -> tuple[list[threading.Thread], float]:
    bench.send(bench.make_files(10))
    return [], 1.5


def begin_delete(bench: Bench) -> tuple[list[threading.Thread], float]:
    bench.send(bench.make_files(6), wait=True)
    listed = httpx.get(f"{bench.address}/v1/documents", params={"limit": 1000}, timeout=WAIT_S)
    chosen = bench.chance.sample(listed.json(), 5)
    return run_threads(
        [lambda one=one: bench.delete(one["id"], one["name"]) for one in chosen]
    ), 0.5


def begin_reindex(bench: Bench) -> tuple[list[threading.Thread], float]:
    log = bench.folder / "reindex.log"
    bench.children.append(fork_command(log, "reindex", "--data", str(bench.data)))
    files = bench.make_files(2)
    return run_threads([lambda: bench.send(files)]), 1.5


def begin_backup(bench: Bench) -> tuple[list[threading.Thread], float]:
    target = bench.folder / "backup.tar"
    arguments = ("backup", str(target), "--data", str(bench.data))
    bench.children.append(fork_command(bench.folder / "backup.log", *arguments))
    listed = httpx.get(f"{bench.address}/v1/documents", params={"limit": 1000}, timeout=WAIT_S)
    chosen = bench.chance.sample(listed.json(), min(2, len(listed.json())))
    files = bench.make_files(3)
    jobs: list[Callable[[], None]] = [lambda: bench.send(files)]
    jobs += [lambda one=one: bench.delete(one["id"], one["name"]) for one in chosen]
    return run_threads(jobs), 1.5


KINDS = {
    "upload": begin_upload,
    "ingest": begin_ingest,
    "delete": begin_delete,
    "reindex": begin_reindex,
    "backup": begin_backup,
}


def run_kind(kind: str, kills: int, folder: Path, seed: int) -> Bench:
    bench = Bench(folder, random.Random(seed))
    folder.mkdir(parents=True)
    for number in range(kills + 1):
        bench.start()
        bench.finish_uploads()
        bench.check()
        if (folder / "backup.tar").exists():
            bench.check_backup(folder / "backup.tar")
        if number == kills:
            break
        threads, longest_s = KINDS[kind](bench)
        time.sleep(bench.chance.uniform(0.0, longest_s * bench.slowness))
        bench.kill()
        for thread in threads:
            thread.join()
    bench.kill()
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    print("| during | kills | acknowledged | " + " | ".join(FAULTS) + " |")
    print("|---|" + "---:|" * (len(FAULTS) + 2))
    faults = 0
    for kind in options.kinds.split(","):
        bench = run_kind(kind, options.kills, folder / kind, options.seed)
        cells = [kind, options.kills, bench.acknowledged, *(bench.faults[one] for one in FAULTS)]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        if bench.backups:
            print(f"\n{bench.backups} backups were finished and are complete as the table says.")
        faults += sum(bench.faults.values())
    if faults:
        print(f"The data directories are in {folder}.", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
