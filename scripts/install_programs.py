"""Install Debian's Chromium, Firefox and Redis for the tests that start them, where possible.

Without one of them its tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

# Package → the names under which the program may be there already, and what needs it.
PROGRAMS = {
    "chromium": (
        ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
        "the browser tests",
    ),
    "firefox-esr": (("firefox-esr", "firefox"), "the browser tests in Firefox"),
    "redis-server": (("redis-server",), "the tests of shared limits"),
}


def main() -> int:
    missing = {
        package: needed_by
        for package, (names, needed_by) in PROGRAMS.items()
        if not any(shutil.which(name) for name in names)
    }
    if missing and not (shutil.which("apt-get") and os.geteuid() == 0):
        for package, needed_by in missing.items():
            print(f"notice: no {package} is installed; {needed_by} are skipped")
        return 0
    if missing:
        _run("apt-get", "update", "-qq")
    for package, needed_by in missing.items():
        failure = _run("apt-get", "install", "-qq", "-y", "--no-install-recommends", package)
        if failure:
            print(f"notice: {package} cannot be installed ({failure}); {needed_by} are skipped")
    return 0


def _run(*command: str) -> str:
    """Empty when it went well. A service that cannot be started here has been installed all the
    same: the tests start their own."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=600, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
