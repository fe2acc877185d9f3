"""Lay out what a GPU machine needs in folders of at most 59 MiB, each sent with one call.

    python -m training.carry    # training/carry-a, carry-b, ...

There, the folders are copied over training/out, and base/model.onnx.gz is unpacked.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path

from training.rows import OUT, ROOT


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=OUT, help="where rows and weights are")
    parser.add_argument("--to", type=Path, default=ROOT / "training")
    parser.add_argument("--most", type=int, default=59 << 20)
    options = parser.parse_args()
    out = options.out
    packed = out / "base/model.onnx.gz"
    packed.write_bytes(gzip.compress((out / "base/model.onnx").read_bytes(), mtime=0))
    files = [*sorted((out / "rows").glob("*.xz")), packed]
    files += [*sorted((out / "shipped").glob("int8.*")), *sorted((out / "mpnet").glob("int8.*"))]
    for old in options.to.glob("carry-*"):
        shutil.rmtree(old)
    room: dict[Path, int] = {}
    for path in files:
        size = path.stat().st_size
        folder = next((name for name, left in room.items() if left >= size), None)
        if folder is None:
            folder = options.to / f"carry-{chr(ord('a') + len(room))}"
            room[folder] = options.most
        room[folder] -= size
        target = folder / path.relative_to(out)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for folder, left in room.items():
        names = sorted({path.parent.name for path in folder.glob("*/*")})
        print(f"{folder.name}: {options.most - left:,} bytes: {', '.join(names)}")


if __name__ == "__main__":
    main()
