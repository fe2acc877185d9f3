"""Parser processes: limits are kept from outside, and one bad file costs only itself."""

from __future__ import annotations

import gzip
import os
import signal
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragstone.blocks import LoadOptions, ParsedPart
from ragstone.ingest.parser import pool, protocol
from ragstone.ingest.parser.pool import ParserPool
from ragstone.processes import IdleProcesses, WorkCrashError

from ...patience import LONG_S

ODD_FILES = Path(__file__).parents[3].parent / "shared/data/odd-files"


def run(*requests: protocol.Request, timeout_s: float = LONG_S) -> dict[str, list[ParsedPart]]:
    parts: dict[str, list[ParsedPart]] = {}
    parser = ParserPool[str](1, timeout_s=timeout_s)
    for event in parser.run([(request.name, request) for request in requests]):
        if event is None:
            continue
        parts.setdefault(event.job, [])
        if event.part is not None:
            parts[event.job].append(event.part)
    return parts


def request(path: Path, **options: object) -> protocol.Request:
    return protocol.Request(str(path), path.name, **options)  # type: ignore[arg-type]


def test_what_a_process_reads_arrives_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("# Über 😀\n\nText.\n", "utf-8")
    (part,) = run(request(file))["a.md"]
    assert part.loaded is not None
    assert part.loaded.text == "# Über 😀\n\nText.\n"
    assert part.loaded.headings[0].title == "Über 😀"
    assert part.loaded.metadata["title"] == "Über 😀"


def test_a_file_that_waits_is_stopped_later_than_one_that_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "waits.txt")  # nobody will ever write to it
    (tmp_path / "computes.md").write_text("[" * 200_000)
    (tmp_path / "good.txt").write_text("Good.")
    (waits,) = run(request(tmp_path / "waits.txt"), timeout_s=0.2)["waits.txt"]
    assert "no progress for 2 s" in waits.error
    assert "RAGSTONE_INGEST_TIMEOUT_S" in waits.hint
    # On a busy machine it takes long to get so much processor time.
    monkeypatch.setattr(pool, "_WAIT_PER_CPU_SECOND", 10_000)
    (computes,) = run(request(tmp_path / "computes.md"), timeout_s=0.2)["computes.md"]
    assert "more than 0.2 s of processor time" in computes.error
    (good,) = run(request(tmp_path / "good.txt"))["good.txt"]
    assert good.loaded is not None


def test_a_file_that_takes_too_much_memory_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "big.txt.gz").write_bytes(gzip.compress(b"word " * 15_000_000, 1))
    (tmp_path / "good.txt").write_text("Good.")
    parts = run(
        request(tmp_path / "big.txt.gz", max_memory_bytes=130_000_000),
        request(tmp_path / "good.txt"),
    )
    assert "memory" in parts["big.txt.gz"][-1].error
    assert parts["good.txt"][0].loaded is not None


def test_a_process_that_dies_costs_one_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "doomed.txt")
    process = pool._idle.take()
    process.begin(threading.Event())
    process.send(protocol.pack_request(request(tmp_path / "doomed.txt")))
    os.kill(process._popen.pid, signal.SIGSEGV)  # as a bug in a native parser would
    with pytest.raises(WorkCrashError, match="SIGSEGV") as caught:
        process.receive(timeout_s=LONG_S, max_memory_bytes=10**9)
    assert caught.value.exit_code is None
    process.stop()


def test_a_parser_that_does_not_start_is_not_the_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.txt").write_text("Good.")
    monkeypatch.setattr(pool, "_idle", IdleProcesses("ragstone.no_such_module"))
    events = ParserPool[str](1, timeout_s=LONG_S).run([("", request(tmp_path / "good.txt"))])
    failure = next(event for event in events if event is not None)
    assert failure.part is not None
    assert failure.part.error == "The parser process did not start (exit code 1)."
    assert not failure.stamp.sha256  # so that it is read again next time


def test_a_parser_left_in_the_middle_of_a_file_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = IdleProcesses("ragstone.ingest.parser.worker")
    monkeypatch.setattr(pool, "_idle", idle)
    (tmp_path / "left.txt").write_text("Left.")
    (tmp_path / "good.txt").write_text("Good.")
    supervisor = pool._Supervisor(LONG_S, threading.Event())
    next(supervisor.read("left", request(tmp_path / "left.txt")))
    supervisor.release()
    assert not idle._processes
    assert run(request(tmp_path / "good.txt"))["good.txt"][0].loaded is not None
    assert len(idle._processes) == 1


def test_an_idle_parser_that_died_costs_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = IdleProcesses("ragstone.ingest.parser.worker")
    monkeypatch.setattr(pool, "_idle", idle)
    (tmp_path / "good.txt").write_text("Good.")
    run(request(tmp_path / "good.txt"))
    (process,) = idle._processes
    process.kill()
    process._popen.wait()
    assert run(request(tmp_path / "good.txt"))["good.txt"][0].loaded is not None


def test_texts_beyond_the_room_between_two_steps_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_QUEUED_CHARS", 10)
    for name in ("large.txt", "a.txt", "b.txt"):
        (tmp_path / name).write_text(
            "Longer than all the room." if name == "large.txt" else "Small."
        )
    parts = run(*(request(tmp_path / name) for name in ("large.txt", "a.txt", "b.txt")))
    assert all(part.loaded for (part,) in parts.values())


def test_a_file_over_the_size_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 2000)
    (part,) = run(request(tmp_path / "a.txt", max_file_bytes=1000))["a.txt"]
    assert "more than the 0.001 MB allowed" in part.error


def test_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    (part,) = run(request(tmp_path / "a.txt"))["a.txt"]
    assert part.error == "The file cannot be read: No such file or directory."


@pytest.mark.skipif(not ODD_FILES.is_dir(), reason="the odd files are not here")
def test_every_odd_file_is_read_or_fails_with_a_reason() -> None:
    files = sorted(ODD_FILES.iterdir())
    options = LoadOptions(max_unpacked_bytes=100_000_000)
    outcomes = run(*(request(file, options=options) for file in files))
    assert set(outcomes) == {file.name for file in files}
    for name, parts in outcomes.items():
        assert parts, name
        for part in parts:
            assert part.loaded is not None or part.error, name
            assert "Error" not in part.error, (name, part.error)
            assert "crashed" not in part.error, name
    assert sum(any(part.loaded for part in parts) for parts in outcomes.values()) >= 120
    assert "nested more than 3" in outcomes["droste.zip"][0].error
    assert "encrypted" in outcomes["testWORD_protected_passtika.docx"][0].error


@pytest.mark.skipif(not ODD_FILES.is_dir(), reason="the odd files are not here")
@pytest.mark.skipif(find_spec("msoffcrypto") is None, reason="ragstone[encrypted] is not there")
@pytest.mark.parametrize("kind", ["WORD", "PPT", "EXCEL"])
def test_an_encrypted_office_file_opens_with_its_password(kind: str) -> None:
    (file,) = ODD_FILES.glob(f"test{kind}_protected_passtika.*")
    (wrong,) = run(request(file, options=LoadOptions(password="wrong")))[file.name]
    assert "does not open it" in wrong.error
    (part,) = run(request(file, options=LoadOptions(password="tika")))[file.name]
    assert part.loaded is not None, part.error
