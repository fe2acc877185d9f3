"""Hide the differences between operating systems.

Every function works on Linux; elsewhere it uses a replacement or does nothing, and its docstring
gives the reason. No other module uses /proc, `fcntl`, `resource`, `msvcrt`, priorities or the C
library.
"""

from __future__ import annotations

import ctypes
import os
import queue
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Protocol

_PROC = Path("/proc")
_IS_LINUX = sys.platform == "linux"
_IS_MACOS = sys.platform == "darwin"
_IS_WINDOWS = sys.platform == "win32"
# For `subprocess.Popen`: Ctrl-C in a terminal doesn't reach a process in a group of its own.
OWN_PROCESS_GROUP: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if _IS_WINDOWS
    else {"process_group": 0}
)
CAN_MEASURE_CPU = not _IS_WINDOWS
_READ_BYTES = 1 << 20


def _import_optional(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl = _import_optional("fcntl")  # not on Windows
_msvcrt = _import_optional("msvcrt")  # only on Windows
_resource = _import_optional("resource")  # not on Windows


# Memory and processors


def _has_proc() -> bool:
    return (_PROC / "self" / "statm").exists()


def get_memory_check_interval_s() -> float:
    """Return the seconds between two `measure_resident_bytes`: without /proc each starts `ps`."""
    return 0.1 if _has_proc() else 1.0


def measure_resident_bytes(pid: int) -> int:
    """Return the memory that a process uses now; 0 where it cannot be known (Windows)."""
    if not _has_proc():
        return _read_resident_from_ps(pid)
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _get_page_bytes()
    except OSError:  # it has ended
        return 0


def measure_peak_bytes(pid: int) -> int:
    """Return the most memory that a process ever used.

    Without /proc this is known only for this process; for others return what they use now.
    """
    if _has_proc():
        return _read_peak_from_proc(pid)
    if pid == os.getpid() and _resource is not None:
        peak = int(_resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss)
        return peak if _IS_MACOS else peak * 1024  # only macOS counts bytes
    return measure_resident_bytes(pid)


def measure_cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used; 0 where it can't be known (Windows)."""
    if not _has_proc():
        return _read_cpu_from_ps(pid)
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_cpu_from_ps(pid: int) -> float:
    """Read the processor time from `ps`: [[days-]hours:]minutes:seconds."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["ps", "-o", "time=", "-p", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        days, _, clock = done.stdout.strip().rpartition("-")
        seconds = 0.0
        for part in clock.split(":"):
            seconds = seconds * 60 + float(part)
        return seconds + 86_400 * int(days or 0)
    return 0.0


def _read_peak_from_proc(pid: int) -> int:
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return sum(int(words[1]) * 1024 for words in lines)


def _read_resident_from_ps(pid: int) -> int:
    """Read the memory from `ps`, which every POSIX system has; it counts in kilobytes."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return int(done.stdout.strip() or 0) * 1024
    return 0


def _get_page_bytes() -> int:
    return int(os.sysconf("SC_PAGE_SIZE"))


def count_usable_cores() -> int:
    """Count the cores this process may run on; a container or `taskset` may allow fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_libc_function(name: str) -> Any:
    """Return a function of the C library, or None if it has none of that name."""
    # Windows has no library of the whole process and raises a TypeError.
    with suppress(AttributeError, OSError, TypeError):
        return getattr(ctypes.CDLL(None), name)
    return None


# Limits and priorities


def forbid_writing_files() -> None:
    """Forbid this process to write files and core dumps; without effect on Windows."""
    if _resource is not None:
        _resource.setrlimit(_resource.RLIMIT_CORE, (0, 0))
        _resource.setrlimit(_resource.RLIMIT_FSIZE, (0, 0))


def limit_address_space(more_bytes: int) -> None:
    """Limit the addresses of this process to those it has now and `more_bytes` on top.

    Done only with /proc: macOS reserves hundreds of gigabytes for every process and refuses the
    limit; Windows has none.
    """
    if _resource is None or not _has_proc():
        return
    now = int((_PROC / "self" / "statm").read_text().split()[0]) * _get_page_bytes()
    _lower_limit(_resource.RLIMIT_AS, now + more_bytes)


def limit_processor_time(more_s: float) -> None:
    """End this process when it has computed for `more_s` from now; without effect on Windows."""
    if _resource is not None:
        used = _resource.getrusage(_resource.RUSAGE_SELF)
        ends_at = int(used.ru_utime + used.ru_stime + more_s) + 1
        _lower_limit(_resource.RLIMIT_CPU, ends_at)


def _lower_limit(kind: int, wanted: int) -> None:
    """Set the soft limit, at most to the hard one: a shell's `ulimit` may be lower already."""
    assert _resource is not None
    hard = _resource.getrlimit(kind)[1]
    soft = wanted if hard == _resource.RLIM_INFINITY else min(wanted, hard)
    _resource.setrlimit(kind, (soft, hard))


def raise_file_limit(wanted: int) -> int:
    """Allow this process up to `wanted` open files; return how many it may have now.

    A shell often allows 1,024 although the system would allow many more. Windows has no such limit.
    """
    if _resource is None:
        return wanted
    soft, hard = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    is_unlimited = hard == _resource.RLIM_INFINITY
    raised = max(soft, wanted if is_unlimited else min(wanted, hard))
    try:
        _resource.setrlimit(_resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS refuses more than the kernel's own limit
        return int(soft)
    return int(raised)


def lower_process_priority(niceness: int) -> None:
    """Run after the other processes of the machine; without effect on Windows."""
    if hasattr(os, "nice"):
        os.nice(niceness)


def lower_thread_priority(niceness: int) -> None:
    """Run this thread after the other threads of this process.

    Only Linux has a priority for each thread; elsewhere the number would name another process.
    """
    if _IS_LINUX:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def call_in_forked_children(action: Callable[[], None]) -> None:
    """Call `action` in every process that is forked from this one; Windows never forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


# Files


def lock_file(path: Path) -> int | None:
    """Lock an existing file; return None if another process holds the lock or the file is gone.

    The operating system releases the lock when the process ends.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except (FileNotFoundError, PermissionError):  # the second: Windows, during a removal
        return None
    try:
        if _fcntl is not None:
            _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif _msvcrt is not None:
            _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)
        if path.exists():
            return descriptor
    except OSError:  # it is held; also the BlockingIOError of flock
        pass
    os.close(descriptor)
    return None


def remove_locked_file(path: Path, descriptor: int) -> None:
    """Remove a file whose lock this process holds, and release the lock."""
    if _IS_WINDOWS:  # an open file cannot be removed
        os.close(descriptor)
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
        return
    path.unlink(missing_ok=True)
    os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make a rename in a directory durable; Windows cannot open a directory and needs no sync."""
    if _IS_WINDOWS:
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Pipes and sockets


class PipeReader(Protocol):
    """Read a pipe with a time limit."""

    def read(self, max_bytes: int, timeout_s: float) -> bytes | None:
        """Return up to `max_bytes`, b"" at the end, None if nothing came in time."""


def open_pipe_reader(pipe: IO[bytes]) -> PipeReader:
    """Open the output of a child process. On Windows `select` takes only sockets."""
    return _ThreadReader(pipe) if _IS_WINDOWS else _SelectReader(pipe)


class _SelectReader:
    def __init__(self, pipe: IO[bytes]) -> None:
        self._descriptor = pipe.fileno()

    def read(self, max_bytes: int, timeout_s: float) -> bytes | None:
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        # The pipe is read without Python's buffer, which `select` cannot see.
        return os.read(self._descriptor, min(max_bytes, _READ_BYTES)) if ready else None


class _ThreadReader:
    """Read ahead in a thread, a few pieces at most; it ends with the pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pieces: queue.Queue[bytes] = queue.Queue(4)
        self._rest = b""
        self._has_ended = False
        threading.Thread(target=self._read_ahead, args=(pipe.fileno(),), daemon=True).start()

    def _read_ahead(self, descriptor: int) -> None:
        piece = b"."
        while piece:
            try:
                piece = os.read(descriptor, _READ_BYTES)
            except OSError:  # closed, because its process was stopped
                piece = b""
            self._pieces.put(piece)

    def read(self, max_bytes: int, timeout_s: float) -> bytes | None:
        if not self._rest and not self._has_ended:
            try:
                self._rest = self._pieces.get(timeout=timeout_s)
            except queue.Empty:
                return None
            self._has_ended = not self._rest
        piece, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return piece


def reuse_address(listener: socket.socket) -> None:
    """Allow a port to be used again right after a restart.

    Not on Windows: it needs no such option, and two servers could then share a port.
    """
    if not _IS_WINDOWS:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def share_socket(shared: socket.socket) -> Any:
    """Return a copy of a socket that can be sent to a process which is being started."""
    from multiprocessing import reduction  # needed only with several server processes

    if hasattr(reduction, "DupFd"):
        return reduction.DupFd(shared.fileno())
    return vars(reduction)["DupSocket"](shared)  # Windows alone has it


def receive_socket(sent: Any) -> int:
    """Return the descriptor of a socket from `share_socket`, in the other process."""
    received = sent.detach()
    return received if isinstance(received, int) else int(received.detach())
