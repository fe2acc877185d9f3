"""Control a process of the tests: kill it, freeze it, let it go on."""

from __future__ import annotations

import signal
import subprocess


class ControllableProcess:
    """Hold a process that is started by the class that inherits from this one."""

    process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
