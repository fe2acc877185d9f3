"""Control a process of the tests: kill it, freeze it, let it go on."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess

# Below those that Linux gives to connections and to servers that ask for any port (32768 and up).
_PORTS = range(20_000, 32_000)


def find_free_port() -> int:
    """Return a port for a server that must be told one and starts a moment later.

    Nobody is given one of these by the system meanwhile.
    """
    for port in random.SystemRandom().sample(_PORTS, 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError(f"100 ports from {_PORTS} are in use")


class ControllableProcess:
    """Hold a process that is started by the class that inherits from this one."""

    process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Stop the process, and wait until the last of its threads has stopped."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
