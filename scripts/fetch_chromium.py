"""Install Debian's Chromium for the browser tests, where that is possible; they skip without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> int:
    if any(shutil.which(name) for name in NAMES):
        return 0
    if not shutil.which("apt-get") or os.geteuid() != 0:
        print("notice: no Chromium is installed; the browser tests are skipped")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "chromium"]
    for command in (["apt-get", "update", "-qq"], install):
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=600, env=environment)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"notice: Chromium cannot be installed ({error}); the browser tests are skipped")
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
