"""A real Redis on a socket in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ..patience import wait_until

REDIS = shutil.which("redis-server")


class Redis:
    """Started and stopped as a test likes; `address` stays the same."""

    def __init__(self) -> None:
        # A socket's path may have 107 characters, and a test's folder has more.
        self._folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self._socket = self._folder / "s"
        self.address = f"redis+unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert REDIS is not None
        command = [REDIS, "--port", "0", "--unixsocket", self._socket, "--save", ""]
        self._process = subprocess.Popen(
            command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._socket.exists)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._socket.unlink(missing_ok=True)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)
