"""Accept uploads so that a kill loses none, and run jobs so that small ones overtake large ones.

Received files are stored and an upload is in the catalog before its sender is told so. What a
process does not read to its end is read by another one (`catalog/jobs.py`).

Two threads take jobs from the catalog, where other processes take theirs too, and runs over local
folders from a list. One takes only small jobs, so that a note never waits until a large archive is
read. The job that is due first is next: the larger, the later it is due, but a large one is not
overtaken for ever. A third thread extends the leases and looks after uploads read elsewhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from ragstone.catalog.jobs import SMALL_BYTES, LeaseLostError, UploadJobs, compute_delay
from ragstone.catalog.originals import UPLOAD_SCHEME, Originals
from ragstone.errors import (
    IngestError,
    NotFoundError,
    OriginalMissingError,
    RagstoneError,
    StoreBusyError,
    StoreError,
)
from ragstone.ingest.discover import FoundFile, FoundFiles
from ragstone.ingest.formats.read import clean_name, number_name
from ragstone.protocols import AcceptedUpload
from ragstone.reports import FileProgress, IngestedFile, IngestReport

log = logging.getLogger(__name__)

_MAX_ATTEMPTS = 5
# 5, 20, 80 and 320 seconds.
_FIRST_RETRY_S = 5.0
_TICK_S = 0.3
_DATABASE_AWAY_S = 2.0
_SAVE_COUNTS_EVERY_S = 2.0

Takes: TypeAlias = Literal["none", "own", "all"]
"""Which uploads a process reads: none, those that are left to it, or everybody's."""

Stages: TypeAlias = dict[str, dict[str, Any]]
"""The fields of a `FileProgress` by the name of the file."""

ReadUpload: TypeAlias = Callable[[AcceptedUpload, threading.Event], IngestReport]
"""Reads what is unread of an upload, and stops early when the event is set."""


class NoWorkerError(StoreBusyError):
    """Report an upload that is stored, but that no worker has begun to read."""


@dataclass(slots=True, eq=False)
class _FolderRun:
    work: Callable[[], IngestReport]
    collection: str
    is_small: bool
    due: float
    future: Future[IngestReport] = field(default_factory=Future)
    is_running: bool = False


class JobRunner:
    """Read uploads and folders in two threads, until it is closed."""

    def __init__(
        self, jobs: UploadJobs, get_upload: Callable[[str], dict[str, Any]], read: ReadUpload
    ) -> None:
        self._jobs = jobs
        self._get_upload = get_upload
        self._read = read
        self.stages: dict[str, Stages] = {}
        self._saved_stages: dict[str, tuple[Stages, float]] = {}
        self._changed = threading.Condition()
        self._take_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._folder_runs: list[_FolderRun] = []
        self._running: dict[str, threading.Event] = {}
        self._futures: dict[str, Future[IngestReport]] = {}
        self._accepting: set[str] = set()
        self._takes: Takes = "none"
        self._poll_s = 1.0
        self._version = 0
        self._is_closed = False

    def start(self, *, takes: Takes, poll_s: float | None = None) -> None:
        """Start the threads. They take folders, and these uploads beside what they take already."""
        with self._changed:
            self._is_closed = False
            self._takes = max(self._takes, takes, key=get_args(Takes).index)
            self._poll_s = poll_s or self._jobs.lease_s / 4
            if not self._threads:
                for target, argument in (
                    (self._run, False),
                    (self._run, True),
                    (self._look_after, None),
                ):
                    thread = threading.Thread(
                        target=target, args=(argument,), name="ingest", daemon=True
                    )
                    self._threads.append(thread)
                    thread.start()
            self._wake()

    def note_progress(self, upload_id: str, progress: FileProgress) -> None:
        stage = asdict(progress)
        self.stages[upload_id][stage.pop("name")] = stage

    @contextmanager
    def follow(self, upload_id: str) -> Iterator[Future[IngestReport]]:
        """Give what comes when an upload is read, here or elsewhere; it is accepted inside."""
        future: Future[IngestReport] = Future()
        with self._changed:
            self._futures[upload_id] = future
            self._accepting.add(upload_id)
        try:
            yield future
        except BaseException:
            with self._changed:
                self._futures.pop(upload_id, None)
            raise
        finally:
            with self._changed:
                self._accepting.discard(upload_id)
                self._wake()

    def submit(
        self, work: Callable[[], IngestReport], *, collection: str, size: int
    ) -> Future[IngestReport]:
        """Run over a folder; two runs over folders of one collection do not run at once."""
        run = _FolderRun(work, collection, size <= SMALL_BYTES, time.time() + compute_delay(size))
        with self._changed:
            self._folder_runs.append(run)
        self.start(takes="none")
        return run.future

    def close(self) -> bool:
        """Stop what runs, leave what waits to others; return whether the catalog knows it."""
        with self._changed:
            self._is_closed = True
            waiting = [run for run in self._folder_runs if not run.is_running]
            self._folder_runs = [run for run in self._folder_runs if run.is_running]
            threads, self._threads = self._threads, []
            for stop in self._running.values():
                stop.set()
            self._wake()
        for run in waiting:
            run.future.cancel()
        for thread in threads:
            thread.join()
        for upload_id, future in self._futures.items():
            if not future.done():
                future.set_exception(_make_stopping_error(upload_id))
        self._futures.clear()
        if self._takes == "none":
            return True
        try:
            self._jobs.release_own()
        except StoreError as error:  # the leases end by themselves
            log.warning("the jobs of this process are free later: %s", error)
            return False
        return True

    def _wake(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _run(self, only_small: bool) -> None:
        while (job := self._take(only_small)) is not None:
            if isinstance(job, _FolderRun):
                _run_folder(job)
                with self._changed:
                    self._folder_runs.remove(job)
                    self._wake()
            else:
                self._run_upload(job)

    def _take(self, only_small: bool) -> AcceptedUpload | _FolderRun | None:
        while True:
            with self._changed:
                if self._is_closed:
                    return None
                version = self._version
            pause_s = self._poll_s
            try:
                # One at a time: an upload that one thread takes is known to the other.
                with self._take_lock:
                    if (job := self._take_next(only_small)) is not None:
                        return job
            except Exception as error:  # noqa: BLE001  this thread must go on
                log.warning("no job can be taken now: %s", error)
                pause_s = max(pause_s, _DATABASE_AWAY_S)
            with self._changed:
                if version == self._version:
                    self._changed.wait(pause_s)

    def _take_next(self, only_small: bool) -> AcceptedUpload | _FolderRun | None:
        with self._changed:
            run = self._find_folder_run(only_small)
            skip = tuple(self._running)
            takes: Takes = "none" if self._is_closed else self._takes
        if takes != "none":
            upload = self._jobs.take(
                only_small=only_small,
                only_own=takes == "own",
                skip=skip,
                due_before=run.due if run else None,
            )
            if upload is not None:
                with self._changed:
                    stop = self._running[upload.id] = threading.Event()
                    if self._is_closed:
                        stop.set()
                    self._wake()  # from now on its lease is extended
                return upload
        with self._changed:
            if run is not None:
                if self._is_closed:
                    return None
                run.is_running = True
        return run

    def _find_folder_run(self, only_small: bool) -> _FolderRun | None:
        busy = {run.collection for run in self._folder_runs if run.is_running}
        ready = []
        for run in self._folder_runs:
            if run.collection not in busy and (run.is_small or not only_small):
                ready.append(run)
            busy.add(run.collection)  # those of one collection stay in their order
        return min(ready, key=lambda run: run.due, default=None)

    def _run_upload(self, upload: AcceptedUpload) -> None:
        stop = self._running[upload.id]
        self.stages[upload.id] = {}
        try:
            if upload.attempts > _MAX_ATTEMPTS:
                raise IngestError(
                    f"Reading this upload ended its process {_MAX_ATTEMPTS} times.",
                    hint="Send its files one by one to find the one that does it.",
                )
            report = self._read(upload, stop)
            if stop.is_set():
                raise _make_stopping_error(upload.id)
            self._jobs.finish(upload.id, "finished")
            self._resolve(upload.id, report)
        except LeaseLostError as error:
            log.warning("an upload is left to another process: %s", error)
        except Exception as error:  # noqa: BLE001  the sender must learn that it was not read
            if not stop.is_set():
                self._handle_failure(upload, error)
        finally:
            with self._changed:
                self.stages.pop(upload.id, None)
                self._saved_stages.pop(upload.id, None)
                del self._running[upload.id]
                self._wake()

    def _handle_failure(self, upload: AcceptedUpload, error: Exception) -> None:
        """Try a job again later, or record that it failed for good."""
        message = "The server could not read this upload; its log has the reason."
        if isinstance(error, RagstoneError):
            message = error.message
        may_help = not isinstance(error, RagstoneError) or error.retryable
        retries = bool(upload.options.get("retry"))
        if not isinstance(error, RagstoneError):
            log.error("an upload failed", exc_info=error)
        try:
            if retries and may_help and upload.attempts < _MAX_ATTEMPTS:
                delay_s = _FIRST_RETRY_S * 4 ** (upload.attempts - 1)
                self._jobs.postpone(upload.id, error=message, delay_s=delay_s)
                log.warning("an upload is tried again in %g s: %s", delay_s, message)
                return
            # What is missing here may be found by another process: it stays.
            keeps = retries or isinstance(error, OriginalMissingError)
            self._fail(upload, message, keep_unread=keeps)
        except Exception as second:  # noqa: BLE001  it is taken again, or was deleted meanwhile
            log.warning("the failure of an upload could not be stored: %s", second)
        self._resolve(upload.id, error)

    def _fail(self, upload: AcceptedUpload, message: str, *, keep_unread: bool) -> None:
        hint = "Send it again; the files that were read are stored."
        done = [str(file["name"]) for file in self._get_upload(upload.id)["files"]]
        unread = [
            IngestedFile(file.name, "failed", None, 0, message, hint)
            for file in upload.files
            if not any(other == file.name or other.startswith(f"{file.name}/") for other in done)
        ]
        self._jobs.record_outcomes(upload.id, unread, ())
        self._jobs.finish(upload.id, "failed", error=message, keep_unread=keep_unread)

    def _resolve(self, upload_id: str, result: IngestReport | Exception) -> None:
        with self._changed:
            future = self._futures.pop(upload_id, None)
        if future is None or future.cancelled():
            if isinstance(result, RagstoneError):
                log.warning("an upload failed: %s", result)
        elif isinstance(result, IngestReport):
            future.set_result(result)
        else:
            future.set_exception(result)

    def _look_after(self, _: None) -> None:
        """Extend the leases, show the progress, and follow uploads that others read."""
        extended_at = 0.0
        while True:
            with self._changed:
                if self._is_closed:
                    return
                self._changed.wait(_TICK_S if self._futures or self._running else None)
            is_due = time.monotonic() - extended_at >= self._jobs.lease_s / 4
            try:
                if self._takes != "none" and is_due:
                    self._extend_leases()
                    extended_at = time.monotonic()
                self._save_stages()
                if is_due or self._takes != "all":
                    self._follow_others()
            except Exception as error:  # noqa: BLE001  this thread must go on
                log.warning("leases cannot be extended now: %s", error)
                time.sleep(_TICK_S)

    def _extend_leases(self) -> None:
        with self._changed:
            before = dict(self._running)
        held = self._jobs.extend_leases()
        for upload_id, stop in before.items():
            if upload_id not in held:
                stop.set()

    def _save_stages(self) -> None:
        now = time.monotonic()
        for upload_id, stages in list(self.stages.items()):
            current = dict(stages)
            saved, saved_at = self._saved_stages.get(upload_id, ({}, 0.0))
            # Chunks are counted all the time.
            is_due = current.keys() != saved.keys() or now - saved_at >= _SAVE_COUNTS_EVERY_S
            if current != saved and is_due:
                self._saved_stages[upload_id] = current, now
                self._jobs.save_stages(upload_id, current)

    def _follow_others(self) -> None:
        with self._changed:
            elsewhere = self._futures.keys() - self._running.keys() - self._accepting
        for upload_id in elsewhere:
            try:
                upload = self._get_upload(upload_id)
            except NotFoundError as error:
                self._resolve(upload_id, error)
                continue
            if upload["status"] not in {"running", "receiving"}:
                self._resolve(upload_id, _build_report(upload))


def _run_folder(run: _FolderRun) -> None:
    if not run.future.set_running_or_notify_cancel():
        return
    try:
        run.future.set_result(run.work())
    except BaseException as error:  # noqa: BLE001  whoever waits for the run gets it
        run.future.set_exception(error)


def _build_report(upload: dict[str, Any]) -> IngestReport:
    files: Sequence[dict[str, Any]] = upload["files"]
    outcomes = tuple(IngestedFile(**{**file, "hint": file["hint"] or ""}) for file in files)
    return IngestReport(upload["collection"], outcomes)


def _make_stopping_error(upload_id: str) -> StoreBusyError:
    return StoreBusyError(
        "The server is stopping; the rest of this upload is read by another one, "
        "or after the next start.",
        hint=f"Ask for the result then: GET /v1/uploads/{upload_id}",
    )


@dataclass(frozen=True, slots=True)
class Upload:
    """Hold a received file: where it is stored, and the name that its sender gave it."""

    path: Path
    name: str


def accept_upload(
    jobs: UploadJobs,
    originals: Originals,
    uploads: Sequence[Upload],
    *,
    upload_id: str,
    collection: str,
    options: Mapping[str, Any],
    keep: bool = True,
) -> AcceptedUpload:
    """Store received files and record their upload; after this it survives a kill.

    With `keep` this process reads it as long as it lives.
    """
    counts: dict[str, int] = {}
    received = [
        originals.receive(number_name(clean_name(upload.name), counts), upload.path)
        for upload in uploads
    ]
    accepted = AcceptedUpload(upload_id, collection, tuple(received), dict(options))
    places = {file.sha256: upload.path for file, upload in zip(received, uploads, strict=True)}
    jobs.accept(accepted, lambda: originals.files.put(places), keep=keep)
    return accepted


def find_upload_files(originals: Originals, upload: AcceptedUpload) -> FoundFiles:
    """Return the files to read. The name is the source: the same name is a new version."""
    return FoundFiles(
        tuple(
            FoundFile(_find_original(originals, file.sha256), file.name, UPLOAD_SCHEME + file.name)
            for file in upload.files
        ),
        roots=(),
    )


def _find_original(originals: Originals, sha256: str) -> Path:
    """Return the place of a received file; one that is not here may still be elsewhere."""
    if (path := originals.files.find(sha256)) is None:
        raise OriginalMissingError(
            "A received file is not in the store of this process.",
            hint="Machines that read uploads must share their originals: set a bucket.",
        )
    return path
