"""Uploads as jobs: order, leases, retries and the list of those that failed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.jobs import LeaseLostError, UploadJobs
from ragstone.catalog.originals import mark_unused
from ragstone.catalog.schema import tables, uploads
from ragstone.engine import Engine
from ragstone.errors import InputError, NotFoundError, StoreUnavailableError
from ragstone.ingest import jobs as job_runs
from ragstone.ingest.jobs import JobRunner, NoWorkerError, Upload
from ragstone.protocols import AcceptedUpload, ReceivedFile
from ragstone.reports import IngestedFile, IngestReport
from ragstone.testing import HashEmbedder

from ..cli.run import call
from ..conformance.conftest import postgres_url
from ..conftest import settings_in
from ..patience import LONG_S, until, wait_until

__all__ = ["postgres_url"]

LARGE = 10_000_000
SHA = "ab" * 32


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlCatalog]:
    if request.param == "sqlite":
        opened = SqlCatalog(Database.in_directory(tmp_path))
    else:
        opened = SqlCatalog(Database.at_url(request.getfixturevalue("postgres_url")))
    yield opened
    if request.param == "postgres":
        with opened.write_transaction() as connection:
            for name in ("uploads", "upload_inputs", "upload_files", "unused_files"):
                connection.execute(tables.tables[name].delete())
    opened.close()


def open_jobs(catalog: SqlCatalog, reader: str, lease_s: float = 30.0) -> UploadJobs:
    return UploadJobs(catalog, lambda: reader, lease_s)


def send(
    jobs: UploadJobs, name: str, *, size: int = 10, keep: bool = False, **options: Any
) -> None:
    names = options.pop("names", (name,))
    collection = options.pop("collection", "c")
    files = tuple(ReceivedFile(one, SHA, size // len(names)) for one in names)
    jobs.accept(AcceptedUpload(name, collection, files, options), lambda: None, keep=keep)


def take(jobs: UploadJobs, **options: Any) -> str | None:
    job = jobs.take(**options)
    return job.id if job else None


def test_each_job_is_taken_once_and_small_ones_first(catalog: SqlCatalog) -> None:
    one, two = open_jobs(catalog, "one"), open_jobs(catalog, "two")
    send(one, "large", size=LARGE)
    send(one, "middle", size=90_000)
    send(one, "note")
    assert take(one) == "note"
    assert take(two, only_small=True) == "middle"
    assert take(one, only_small=True, skip=["note"]) is None
    assert take(two, due_before=0.0, skip=["middle"]) is None
    assert take(two, skip=["middle"]) == "large"
    assert take(two, skip=["middle", "large"]) is None


def test_a_process_that_takes_only_its_own_jobs_leaves_the_others(catalog: SqlCatalog) -> None:
    server = open_jobs(catalog, "server")
    send(server, "for a worker")
    send(server, "own", keep=True)
    assert take(server, only_own=True) == "own"
    assert take(server, only_own=True, skip=["own"]) is None
    assert take(open_jobs(catalog, "worker")) == "for a worker"


def test_an_old_version_is_not_put_over_a_newer_one(catalog: SqlCatalog) -> None:
    jobs = open_jobs(catalog, "one")

    def fail(name: str, **options: Any) -> None:
        send(jobs, name, retry=True, **options)
        assert take(jobs) == name
        jobs.finish(name, "failed", error="It is away.", keep_unread=True)

    fail("old", names=("a.txt", "b.zip"))
    fail("newer but failed", names=("a.txt",))
    send(jobs, "elsewhere", size=LARGE, names=("a.txt",), collection="d")
    jobs.restart("old")
    assert take(jobs) == "old"
    jobs.finish("old", "failed", error="It is away.", keep_unread=True)
    send(jobs, "newer", names=("a.txt",))
    with pytest.raises(InputError, match=r"newer versions of its files came since \(a.txt\)"):
        jobs.restart("old")
    jobs.delete("newer")
    jobs.restart("old")
    assert take(jobs) == "old"
    jobs.finish("old", "failed", error="It is away.", keep_unread=True)
    send(jobs, "archive", names=("b.zip",))
    assert take(jobs) == "archive"
    jobs.record_outcomes("archive", [IngestedFile("b.zip/c.txt", "added", "x", 1)], ["b.zip"])
    jobs.finish("archive", "finished")
    with pytest.raises(InputError, match=r"\(b.zip\)"):
        jobs.restart("old")


def test_the_same_document_keeps_its_order(catalog: SqlCatalog) -> None:
    jobs = open_jobs(catalog, "one")
    send(jobs, "first", size=LARGE, names=("a.txt", "b.txt"))
    send(jobs, "second", names=("b.txt",))
    send(jobs, "elsewhere", names=("b.txt",), collection="d")
    other = open_jobs(catalog, "two")
    assert take(other) == "elsewhere"
    assert take(other, skip=["elsewhere"]) == "first"
    assert take(jobs) is None, "it waits for the first"
    other.record_outcomes("first", (), ["a.txt", "b.txt"])
    other.finish("first", "finished")
    assert take(jobs) == "second"


def test_many_workers_never_take_the_same_job(catalog: SqlCatalog) -> None:
    for number in range(40):
        send(open_jobs(catalog, "server"), f"job {number}")
    taken: list[str] = []

    def work(reader: str) -> None:
        jobs, mine = open_jobs(catalog, reader), []
        while (job := jobs.take(skip=mine)) is not None:
            mine.append(job.id)
        taken.extend(mine)

    threads = [threading.Thread(target=work, args=(f"worker {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(f"job {number}" for number in range(40))


def end_lease(catalog: SqlCatalog, upload_id: str) -> None:
    """As if its holder had been silent."""
    with catalog.write_transaction() as connection:
        connection.execute(update(uploads).where(uploads.c.id == upload_id).values(held_until=1.0))


def test_a_job_of_a_silent_process_is_taken_and_its_late_commits_are_refused(
    catalog: SqlCatalog,
) -> None:
    frozen, other = open_jobs(catalog, "frozen"), open_jobs(catalog, "other")
    send(frozen, "job")
    assert take(frozen) == "job"
    assert take(other) is None
    assert frozen.extend_leases() == {"job"}
    end_lease(catalog, "job")
    job = other.take()
    assert job is not None
    assert (job.id, job.attempts) == ("job", 2)
    assert frozen.extend_leases() == set()
    late = [IngestedFile("job", "added", "x", 1)]
    with pytest.raises(LeaseLostError, match="Another process"):
        frozen.record_outcomes("job", late, ["job"])
    with pytest.raises(LeaseLostError):
        frozen.finish("job", "finished")
    other.record_outcomes("job", late, ["job"])
    other.finish("job", "finished")
    with catalog.read_transaction() as connection:
        row = connection.execute(select(uploads)).one()
    assert (row.status, row.attempts) == ("finished", 1)


def test_a_job_that_is_kept_is_left_to_its_process_while_it_lives(catalog: SqlCatalog) -> None:
    mine, other = open_jobs(catalog, "mine"), open_jobs(catalog, "other")
    send(mine, "job", keep=True)
    assert take(other) is None
    assert take(mine) == "job"
    assert mine.release("mine") == 1, "it was killed, and its machine knows"
    assert take(other) == "job"


def test_files_that_cannot_be_stored_leave_nothing(catalog: SqlCatalog) -> None:
    jobs = open_jobs(catalog, "one")

    def fail() -> None:
        raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError):
        jobs.accept(AcceptedUpload("x", "c", (ReceivedFile("a", SHA, 1),), {}), fail, keep=True)
    assert jobs.list_unfinished() == []
    assert take(jobs) is None


class Reader:
    """Read jobs as a test tells it to."""

    def __init__(self, catalog: SqlCatalog, reader: str = "one") -> None:
        from ragstone.catalog.uploads import SqlIntakeRecords

        self.jobs = open_jobs(catalog, reader)
        self.read: list[str] = []
        self.go = threading.Event()
        self.error: Exception | None = None
        self.runner = JobRunner(self.jobs, SqlIntakeRecords(catalog).upload, self.work)

    def work(self, upload: AcceptedUpload, stop: threading.Event) -> IngestReport:
        if upload.id.startswith("waits"):
            wait_until(lambda: self.go.is_set() or stop.is_set())
        if self.error is not None:
            raise self.error
        self.read.append(upload.id)
        outcomes = tuple(IngestedFile(file.name, "added", "x", 1) for file in upload.files)
        self.jobs.record_outcomes(upload.id, outcomes, [file.name for file in upload.files])
        return IngestReport(upload.collection, outcomes)

    def send(self, name: str, **options: Any) -> Future[IngestReport]:
        with self.runner.follow(name) as future:
            send(self.jobs, name, keep=True, **options)
        self.runner.start(takes="all")
        return future


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    catalog = SqlCatalog(Database.in_directory(tmp_path))
    reader = Reader(catalog)
    yield reader
    reader.go.set()
    reader.runner.close()
    catalog.close()


def test_a_note_does_not_wait_for_a_large_batch(reader: Reader) -> None:
    large = [reader.send(f"waits {n}", size=LARGE) for n in range(3)]
    wait_until(lambda: bool(reader.runner.stages))
    assert reader.send("note").result(LONG_S).files[0].outcome == "added"
    assert reader.read == ["note"]
    reader.go.set()
    for future in large:
        future.result(LONG_S)
    assert reader.read == ["note", "waits 0", "waits 1", "waits 2"]


def test_the_lease_of_a_job_that_somebody_else_sent_is_extended(reader: Reader) -> None:
    reader.jobs.lease_s = 2.0
    reader.runner.start(takes="all", poll_s=0.1)
    send(open_jobs(reader.jobs._catalog, "server"), "waits")  # type: ignore[arg-type]
    wait_until(lambda: bool(reader.runner.stages))
    first = reader.jobs.list_unfinished()[0]["held_until"]
    wait_until(lambda: reader.jobs.list_unfinished()[0]["held_until"] > first)
    assert reader.read == []


def test_runs_over_folders_of_one_collection_follow_each_other(reader: Reader) -> None:
    done: list[str] = []
    started = threading.Event()

    def run(name: str, waits: bool) -> IngestReport:
        started.set()
        assert not waits or reader.go.wait(LONG_S)
        done.append(name)
        return IngestReport("c", ())

    first = reader.runner.submit(lambda: run("first", True), collection="c", size=0)
    assert started.wait(LONG_S)
    second = reader.runner.submit(lambda: run("second", False), collection="c", size=0)
    other = reader.runner.submit(lambda: run("other", False), collection="d", size=0)
    other.result(LONG_S)
    assert done == ["other"]
    reader.go.set()
    first.result(LONG_S)
    second.result(LONG_S)
    assert done == ["other", "first", "second"]


def test_a_sender_who_waits_gets_the_error(reader: Reader) -> None:
    reader.error = StoreUnavailableError("It is away.")
    with pytest.raises(StoreUnavailableError, match="away"):
        reader.send("job").result(LONG_S)
    assert reader.jobs.list_unfinished(failed=True) == [], "its files are not kept"


def test_a_job_is_tried_again_and_then_listed_as_failed(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough to be seen waiting; `make_due` ends it.
    monkeypatch.setattr(job_runs, "_FIRST_RETRY_S", LONG_S)
    reader.error = StoreUnavailableError("It is away.")
    before = time.time()
    future = reader.send("job", retry=True)
    wait_until(lambda: reader.jobs.list_unfinished()[0]["state"] == "waiting for a retry")
    job = reader.jobs.list_unfinished()[0]
    assert job["error"] == "It is away."
    assert before + LONG_S - 1 < job["not_before"] < time.time() + LONG_S + 1
    assert not future.done()

    def make_due(attempts: int) -> None:
        catalog = reader.jobs._catalog
        with catalog.write_transaction() as connection:
            connection.execute(update(uploads).values(not_before=0.0, attempts=attempts))
        reader.runner.start(takes="all")

    make_due(4)
    wait_until(lambda: bool(reader.jobs.list_unfinished(failed=True)))
    with pytest.raises(StoreUnavailableError):
        future.result(LONG_S)
    failed = reader.jobs.list_unfinished(failed=True)[0]
    assert (failed["state"], failed["unread"]) == ("failed", 1)
    reader.error = None
    reader.jobs.restart("job")
    reader.runner.start(takes="all")
    wait_until(lambda: reader.read == ["job"])
    wait_until(lambda: not reader.jobs.list_unfinished())
    with pytest.raises(InputError, match="no unread files"):
        reader.jobs.restart("job")


def test_a_job_that_kills_its_readers_is_given_up(reader: Reader) -> None:
    catalog = reader.jobs._catalog
    send(reader.jobs, "job", retry=True)
    with catalog.write_transaction() as connection:
        connection.execute(update(uploads).values(attempts=5))
    reader.runner.start(takes="all")
    wait_until(lambda: bool(reader.jobs.list_unfinished(failed=True)))
    assert "ended its process 5 times" in reader.jobs.list_unfinished(failed=True)[0]["error"]
    assert reader.read == []


def test_a_runner_that_closes_leaves_its_jobs_to_others(reader: Reader) -> None:
    reader.send("waits", size=LARGE)
    wait_until(lambda: bool(reader.runner.stages))
    assert reader.runner.close()
    other = open_jobs(reader.jobs._catalog, "other")  # type: ignore[arg-type]
    job = other.take()
    assert job is not None
    assert (job.id, job.attempts) == ("waits", 1), "a stop is not a failure"


def test_a_server_follows_what_a_worker_reads(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "data", **{"ingest.uploads": "workers"})
    server, worker = (Engine(settings, embedder=HashEmbedder()) for _ in range(2))
    stop = threading.Event()
    thread = threading.Thread(target=worker.intake.run_worker, args=(stop,))

    async def upload() -> IngestReport:
        path = server.originals.new_path()
        path.write_text("The gate is green.")
        work = await server.accept_uploads([Upload(path, "a.txt")], upload_id="one")
        assert server.upload("one")["status"] == "running"
        assert not work.done()
        thread.start()
        return await asyncio.wrap_future(work)

    report = asyncio.run(upload())
    stop.set()
    thread.join()
    assert [(file.name, file.outcome) for file in report.files] == [("a.txt", "added")]
    assert [document.name for document in server.documents()] == ["a.txt"]
    worker.close()
    server.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Engine]:
    """A server that leaves uploads to workers, of which there are none."""
    settings = settings_in(tmp_path / "data", **{"ingest.uploads": "workers"})
    engine = Engine(settings, embedder=HashEmbedder())
    yield engine
    engine.close()


def receive(engine: Engine, name: str) -> Upload:
    path = engine.originals.new_path()
    path.write_text(f"The gate of {name} is green.")
    return Upload(path, name)


def test_a_password_makes_a_server_read_only_that_upload(server: Engine) -> None:
    async def upload() -> None:
        await server.accept_uploads([receive(server, "a.txt")], upload_id="for a worker")
        await server.ingest_uploads([receive(server, "b.txt")], password="x", upload_id="own")

    asyncio.run(upload())
    assert server.upload("own")["status"] == "finished"
    assert [job["state"] for job in server.intake.jobs.list_unfinished()] == ["waiting"]
    assert [document.name for document in server.documents()] == ["b.txt"]


def test_a_sender_does_not_wait_for_ever_for_a_worker(server: Engine) -> None:
    server.intake.no_worker_s = 0.2
    with pytest.raises(NoWorkerError, match=r"within 0.2 s; it stays queued") as raised:
        asyncio.run(server.ingest_uploads([receive(server, "a.txt")], upload_id="one"))
    assert "GET /v1/uploads/one" in raised.value.hint
    (job,) = server.intake.jobs.list_unfinished()
    assert (job["id"], job["state"], job["options"]["retry"]) == ("one", "waiting", True)


def test_a_sender_waits_while_a_worker_reads(
    server: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.intake.no_worker_s = 0.02
    worker = UploadJobs(server.catalog, lambda: "worker", LONG_S)
    looks: list[str] = []
    leave_untaken = server.intake.jobs.leave_untaken

    def count_looks(upload_id: str) -> bool:
        looks.append(upload_id)
        return leave_untaken(upload_id)

    monkeypatch.setattr(server.intake.jobs, "leave_untaken", count_looks)

    async def upload() -> IngestReport:
        work = await server.accept_uploads([receive(server, "a.txt")], upload_id="one")
        assert worker.take() is not None
        sent = asyncio.create_task(server.intake.wait_for_upload("one", asyncio.wrap_future(work)))
        await until(lambda: len(looks) > 2)
        assert not sent.done()
        worker.record_outcomes("one", [IngestedFile("a.txt", "added", "x", 1)], ["a.txt"])
        worker.finish("one", "finished")
        return await sent

    assert asyncio.run(upload()).files[0].outcome == "added"


def test_asking_for_an_upload_deletes_no_file(
    server: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(server.accept_uploads([receive(server, "a.txt")], upload_id="one"))
    with server.catalog.write_transaction() as connection:
        mark_unused(connection, SHA)
    removed: list[str] = []
    monkeypatch.setattr(server.originals.files, "remove", removed.append)
    for reads in ("workers", "here"):
        monkeypatch.setattr(
            server.intake, "_settings", server.settings.ingest.model_copy(update={"uploads": reads})
        )
        assert server.upload("one")["id"] == "one"
        assert removed == []


def test_a_deleted_collection_ends_its_uploads(reader: Reader) -> None:
    from ragstone.catalog.collections import SqlCollections

    collections = SqlCollections(reader.jobs._catalog)
    collections.create("c", embedder="x")
    future = reader.send("waits", size=LARGE)
    wait_until(lambda: bool(reader.runner.stages))
    collections.delete("c")
    reader.go.set()
    reader.runner._follow_others()
    wait_until(lambda: not reader.runner.stages)
    reader.runner._follow_others()
    with pytest.raises(NotFoundError):
        future.result(LONG_S)


def test_the_command_lists_retries_and_deletes(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        return call("jobs", *words, "--data", tmp_path, cwd=tmp_path).stdout

    catalog = SqlCatalog(Database.in_directory(tmp_path))
    jobs = open_jobs(catalog, "gone")
    assert "All uploads are read" in run()
    send(jobs, "waiting", retry=True)
    send(jobs, "broken", retry=True)
    assert jobs.take(skip=["waiting"]) is not None
    jobs.finish("broken", "failed", error="It is away.", keep_unread=True)
    assert "waiting" in run()
    listed = run("--failed", "--json")
    assert '"broken"' in listed
    assert "It is away." in listed
    assert "read again" in run("retry", "broken")
    assert "broken" in run()
    assert "Deleted" in run("delete", "broken")
    assert jobs.list_unfinished(failed=True) == []
    assert [job["id"] for job in jobs.list_unfinished()] == ["waiting"]
    catalog.close()
