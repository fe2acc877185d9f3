"""Describe the files of a collection's index, with their checksums; compact and code its vectors.

A small manifest, replaced atomically, names the current folders, the last catalog change that is
in them, and the CRC-32 of every file. Files that it does not name are left over from an interrupted
run.
"""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ragstone.files import replace_file, sync_file
from ragstone.index.vectors import (
    KEYS_FILE,
    MIN_DEPTH,
    VECTORS_FILE,
    Codes,
    VectorFile,
    copy_rows,
    get_file_widths,
    mask_keys,
    measure_depth,
)

log = logging.getLogger(__name__)

# A higher number makes every index be rebuilt.
FORMAT = 7
_MANIFEST_FILE = "manifest.json"
# Codes are written again when this share of the rows is not in the file, and trained again when
# the collection has grown by this factor.
_MAX_UNCODED_SHARE = 0.25
_TRAINING_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Manifest:
    """Describe the files of an index.

    `generation` numbers the folders; `dead` are ranges of deleted keys (first, count).
    """

    dimension: int
    catalog: int
    format: int = FORMAT
    seq: int = 0
    keyword_generation: int = 0
    dense_generation: int = 0
    rows: int = 0
    dead: tuple[tuple[int, int], ...] = ()
    code_rows: int = 0
    trained_rows: int = 0
    analyzer: int = 1
    """The version of the word analysis that made the terms."""
    depth: int = MIN_DEPTH
    """How many of the best rows by their codes are scored exactly."""
    recall: float | None = None
    """The share of the exact first ten that was found at this depth; None without codes."""
    measured_rows: int = 0
    sums: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By the file's name: how many bytes of it count, and their CRC-32."""

    def dead_ranges(self) -> list[range]:
        return [range(first, first + count) for first, count in self.dead]

    def dead_rows(self) -> int:
        return sum(count for _, count in self.dead)

    def keyword_folder(self, folder: Path) -> Path:
        return folder / f"keyword-{self.keyword_generation}"

    def dense_folder(self, folder: Path) -> Path:
        return folder / f"dense-{self.dense_generation}"

    def codes_file(self, folder: Path) -> Path:
        return self.dense_folder(folder) / f"codes-{self.code_rows}.faiss"


def read_manifest(folder: Path, nothing: Manifest) -> Manifest:
    """Read the manifest of a folder.

    Returns `nothing` if it is missing or damaged, or if its format, dimension, catalog or word
    analysis is another one.
    """
    try:
        found = _parse_manifest((folder / _MANIFEST_FILE).read_bytes())
    except FileNotFoundError:
        return nothing
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the manifest of the index %s is damaged: %s", folder.name, error)
        return nothing
    same = ("format", "dimension", "catalog", "analyzer")
    return found if all(getattr(found, n) == getattr(nothing, n) for n in same) else nothing


def _parse_manifest(content: bytes) -> Manifest:
    fields = json.loads(content)
    if fields["format"] != FORMAT:
        return Manifest(fields["dimension"], fields["catalog"], format=fields["format"])
    if fields.pop("checksum") != _sum_fields(fields):
        raise ValueError("it does not match its checksum")
    fields["sums"] = {name: (size, checksum) for name, (size, checksum) in fields["sums"].items()}
    fields["dead"] = tuple((first, count) for first, count in fields["dead"])
    return Manifest(**fields)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Publish a manifest, then delete the files that it does not name."""
    fields = asdict(manifest)
    content = {**fields, "checksum": _sum_fields(fields)}
    replace_file(folder / _MANIFEST_FILE, json.dumps(content).encode())
    delete_unpublished(folder, manifest)
    for codes in manifest.dense_folder(folder).glob("codes-*.faiss"):
        if codes != manifest.codes_file(folder):
            codes.unlink(missing_ok=True)


def _sum_fields(fields: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(fields).encode())


def delete_unpublished(folder: Path, published: Manifest) -> None:
    """Delete the folders that a failed build left; they may fill the disk."""
    named = {published.keyword_folder(folder), published.dense_folder(folder)}
    for path in folder.glob("*-*"):
        if path.is_dir() and path not in named:
            shutil.rmtree(path, ignore_errors=True)


def delete_index(folder: Path) -> None:
    """Delete the files of an index, but nothing else that is in its folder."""
    (folder / _MANIFEST_FILE).unlink(missing_ok=True)
    for path in folder.glob("*-*"):
        shutil.rmtree(path, ignore_errors=True)


def read_stamp(folder: Path) -> tuple[int, int] | None:
    """Return a value that changes with the manifest; None without one."""
    try:
        status = (folder / _MANIFEST_FILE).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


# What tantivy replaces; it never changes any other file that it has written.
_REPLACED = ("meta.json", ".managed.json")
_READ_BYTES = 1 << 20


def add_checksums(folder: Path, manifest: Manifest) -> Manifest:
    """Return a manifest with the checksums of its files; only what is new is read."""
    known = manifest.sums
    sums: dict[str, tuple[int, int]] = {}
    for name, size in _list_files(folder, manifest):
        length, checksum = known.get(name, (0, 0))
        if length > size or name.rpartition("/")[2] in _REPLACED:
            length, checksum = 0, 0
        sums[name] = (size, _sum_file(folder / name, length, size, checksum))
    return replace(manifest, sums=sums)


def _list_files(folder: Path, manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield the names of the files that a manifest describes, and how many bytes of each count."""
    dense = manifest.dense_folder(folder)
    if manifest.rows:
        keys_width, vectors_width = get_file_widths(manifest.dimension)
        yield f"{dense.name}/{KEYS_FILE}", manifest.rows * keys_width
        yield f"{dense.name}/{VECTORS_FILE}", manifest.rows * vectors_width
    codes = manifest.codes_file(folder)
    if manifest.code_rows:
        yield f"{dense.name}/{codes.name}", codes.stat().st_size
    keyword = manifest.keyword_folder(folder)
    for path in sorted(keyword.iterdir()):
        if path.suffix != ".lock":
            yield f"{keyword.name}/{path.name}", path.stat().st_size


def has_changed(
    folder: Path, manifest: Manifest, path: Path, pause: Callable[[], None] = lambda: None
) -> bool:
    """Return whether a file is missing or does not match its checksum.

    `pause` is called after each piece that was read.
    """
    length, checksum = manifest.sums.get(path.relative_to(folder).as_posix(), (0, 0))
    try:
        return _sum_file(path, 0, length, 0, pause) != checksum
    except (FileNotFoundError, ValueError):
        return True


def is_manifest_damaged(folder: Path) -> bool:
    """Return whether there is a manifest that cannot be read; a missing one was never written."""
    try:
        _parse_manifest((folder / _MANIFEST_FILE).read_bytes())
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return True
    return False


def find_damage(
    folder: Path, nothing: Manifest, pause: Callable[[], None] = lambda: None
) -> list[str]:
    """Return the names of the files that are missing or do not match their checksums.

    `nothing` is the manifest of an empty index, as for `read_manifest`.
    """
    if is_manifest_damaged(folder):
        return [_MANIFEST_FILE]
    manifest = read_manifest(folder, nothing)
    return [name for name in manifest.sums if has_changed(folder, manifest, folder / name, pause)]


def _sum_file(
    path: Path,
    begin: int,
    end: int,
    checksum: int,
    pause: Callable[[], None] = lambda: None,
) -> int:
    """Continue the CRC-32 of the first `begin` bytes of a file up to `end`."""
    with path.open("rb") as file:
        file.seek(begin)
        while begin < end:
            piece = file.read(min(_READ_BYTES, end - begin))
            if not piece:
                raise ValueError(f"{path.name} is shorter than its manifest says")
            checksum = zlib.crc32(piece, checksum)
            begin += len(piece)
            pause()
    return checksum


def refuse_damaged(folder: Path, manifest: Manifest, path: Path) -> None:
    """Raise an error for a file that does not match its checksum."""
    if has_changed(folder, manifest, path):
        raise ValueError(f"{path.name} does not match its checksum")


def start_generation(folder: Path, manifest: Manifest) -> Manifest:
    """Return a manifest that names new, unused folders."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(path.name.rpartition("-")[2]) for path in folder.glob("*-*") if path.is_dir()]
    number = max(numbers, default=0) + 1
    return replace(manifest, keyword_generation=number, dense_generation=number)


def compact_vectors(
    folder: Path, manifest: Manifest, file: VectorFile
) -> tuple[Manifest, VectorFile]:
    """Copy the vectors that are not deleted into a new folder."""
    refuse_damaged(folder, manifest, manifest.dense_folder(folder) / VECTORS_FILE)
    generation = start_generation(folder, manifest).dense_generation
    after = replace(manifest, dense_generation=generation, dead=(), code_rows=0, trained_rows=0)
    dense_folder = after.dense_folder(folder)
    rows = copy_rows(file, ~mask_keys(file.keys, manifest.dead_ranges()), dense_folder)
    copy = VectorFile.open(dense_folder, dimension=manifest.dimension, rows=rows)
    return replace(after, rows=rows), copy


def write_codes(folder: Path, manifest: Manifest, file: VectorFile) -> Manifest:
    """Write the codes again if many rows have none; the others are coded when it is opened."""
    if manifest.rows - manifest.code_rows <= _MAX_UNCODED_SHARE * manifest.rows:
        return manifest
    if manifest.rows >= _TRAINING_GROWTH * manifest.trained_rows:
        codes, trained = Codes.train(file), manifest.rows
    else:
        refuse_damaged(folder, manifest, manifest.codes_file(folder))
        codes, trained = Codes.read(manifest.codes_file(folder)), manifest.trained_rows
        codes.extend(file)
    after = replace(manifest, code_rows=manifest.rows, trained_rows=trained)
    if trained == manifest.rows or manifest.rows >= 2 * manifest.measured_rows:
        depth, recall = measure_depth(file, codes)
        after = replace(after, depth=depth, recall=recall, measured_rows=manifest.rows)
        log.info("dense recall@10 is %.3f at a depth of %d", recall, depth)
    codes.write(after.codes_file(folder))
    sync_file(after.codes_file(folder))
    return after
