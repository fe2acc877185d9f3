"""Flip random bits in the files of a data directory, and count which are found.

    python bench/flips.py --flips 200

Each flip is made in a fresh copy of the directory. It is *found* if opening the data or
`ragstone doctor --deep --check` reports it, *harmless* if nothing is reported and all documents,
hits, filters, line boxes and originals are as before, and *missed* otherwise. `history only` are
those among the harmless that change the journal, a conversation or a share. The index has codes
although it is small (its limit for an exact search is lowered): every kind of file is there.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from kills import make_pdf
from ragstone.catalog.backup import check_data
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.integrity import check_content
from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.errors import RagstoneError
from ragstone.filters import parse_filter
from ragstone.index import local
from ragstone.index.verify import check_index_files
from ragstone.ingest.jobs import Upload
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder
from ragstone.types import DEFAULT_COLLECTION, Query

WORDS = ("wind", "rain", "bolt", "shelf", "gate", "lease", "notice", "month", "green", "river")
QUESTIONS = ("the shelf with bolts", "notice of the lease in a month", "green gate by the river")
HISTORY = ("queries", "evidence", "sessions", "turns", "shares")
OUTCOMES = ("found", "harmless", "history only", "missed")


class Warnings(logging.Handler):
    """Hold what was logged: the loss of the last transaction is a warning and not an error."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


WARNINGS = Warnings()


def open_engine(directory: Path) -> Engine:
    flags = {"data.directory": directory, "data.answer_cache": 0}
    return Engine(load_settings(flags=flags, environ={}).settings, embedder=HashEmbedder())


async def fill(directory: Path, chance: random.Random) -> None:
    """Store PDFs and texts with fields, ask a few questions, and leave the log of SQLite behind."""
    async with open_engine(directory) as engine:
        for number in range(24):
            name = f"{number:03}{'.pdf' if number % 2 else '.txt'}"
            text = "\n\n".join(
                f"# Part {part}\n\n" + " ".join(chance.choices(WORDS, k=60)) for part in range(12)
            )
            path = engine.intake.originals.new_path()
            path.write_bytes(make_pdf(name) if number % 2 else text.encode())
            await engine.ingest_uploads(
                [Upload(path, name)], metadata={"year": 2000 + number, "tags": [WORDS[number % 9]]}
            )
        for number in range(3):  # a newer version, and a deletion
            path = engine.intake.originals.new_path()
            path.write_bytes(make_pdf(f"newer {number}"))
            await engine.ingest_uploads([Upload(path, f"{2 * number + 1:03}.pdf")])
        await engine.delete(engine.documents()[-1].id)
        for question in QUESTIONS:
            await engine.ask(question, session_id="s")
        KeyRing(engine.catalog).create(
            "alice", role="admin", collections=["default"], expires_in_s=None
        )
        shutil.copytree(directory, directory.with_name("killed"))


def find_problems(engine: Engine) -> Iterator[str]:
    """Yield what `ragstone doctor --deep --check` reports as wrong."""
    catalog = engine.catalog
    assert isinstance(catalog, SqlCatalog)
    name = engine.embedder.name
    mine = [one for one in catalog.collections() if catalog.embedder_of(one) == name]
    for findings in (
        check_index_files(engine.index, mine, repair=False),
        check_data(
            catalog, catalog.database, engine.index, engine.embedder, repair=False, deep=True
        ),
        check_content(catalog.database, engine.intake.originals, keeps_originals=True),
    ):
        yield from (one.detail for one in findings if one.state != "ok")


def describe(engine: Engine, directory: Path) -> dict[str, str]:
    """Return hashes of the documents, of what a search finds, of the keys, and of the history."""
    parts: dict[str, list[object]] = {}
    catalog, index, records = engine.catalog, engine.index, engine.intake.records
    for listed in engine.documents():
        document = catalog.document(listed.id)
        parts.setdefault("documents", []).append(asdict(document))
        parts.setdefault("lines", []).append([asdict(line) for line in records.lines(document.id)])
        original = hashlib.sha256(engine.original(document).read_bytes()).hexdigest()
        parts.setdefault("originals", []).append(original)
        versions = records.versions(document.collection, document.name)
        parts.setdefault("versions", []).append([(one.id, at) for one, at in versions])
    for question in QUESTIONS:
        vector = engine.embedder.embed([question])[0]
        for filter_ in (None, {"year": {"gte": 2010}}, {"tags": "gate"}):
            wanted = parse_filter(filter_) if filter_ else None
            scope = catalog.resolve_scope(Query("", question, filter=wanted))
            dense = index.search_dense(DEFAULT_COLLECTION, vector, limit=20, scope=scope)
            words = index.search_keyword(
                DEFAULT_COLLECTION, question, limit=20, k1=1.2, b=0.75, scope=scope
            )
            hits = [*dense, *words]
            name = "hits with a filter" if filter_ else "hits"
            parts.setdefault(name, []).append([(hit.key, round(hit.score, 5)) for hit in hits])
            found = sorted(catalog.chunks(hit.key for hit in hits).items())
            parts.setdefault("chunks", []).append([asdict(one) for _, one in found])
    parts["keys"] = [asdict(key) for key in KeyRing(catalog).list()]
    with closing(sqlite3.connect(directory / "catalog.db")) as connection:
        parts["history"] = [
            connection.execute(f"SELECT * FROM {one}").fetchall() for one in HISTORY
        ]
    return {name: _hash(value) for name, value in parts.items()}


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, default=str, sort_keys=True).encode()).hexdigest()


def judge(directory: Path, before: dict[str, str]) -> tuple[str, str]:
    """Return the outcome for a damaged directory, and what was said."""
    WARNINGS.messages.clear()
    try:
        engine = open_engine(directory)
        try:
            for problem in (*find_problems(engine), *WARNINGS.messages):
                return "found", problem
            after = describe(engine, directory)
        finally:
            engine.close()
    except RagstoneError as error:
        return "found", str(error)
    except sqlite3.Error as error:  # the bench's own reading of the history
        return "history only", str(error)
    except Exception as error:  # noqa: BLE001  any other is no sentence for a user
        return "missed", f"{type(error).__name__}: {error}"
    changed = [name for name in before if after.get(name) != before[name]]
    if not changed:
        return "harmless", ""
    return ("history only" if changed == ["history"] else "missed"), f"changed: {changed}"


def name_kind(path: Path) -> str:
    """Return the name under which the files of one kind are counted."""
    if path.parts[0] in ("originals", "cache"):
        return f"{path.parts[0]}/…"
    if path.parts[0] == "index" and path.suffix not in (".json", ".i64", ".f32"):
        return f"{path.parts[2].partition('-')[0]}/*{path.suffix}"
    return path.name if path.parts[0] != "index" else "/".join(path.parts[2:]).replace("-1", "")


def list_files(directory: Path) -> dict[str, list[Path]]:
    kinds: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.suffix != ".lock" and path.stat().st_size:
            kinds.setdefault(name_kind(path.relative_to(directory)), []).append(
                path.relative_to(directory)
            )
    return kinds


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def is_found_quickly(engine: Engine, directory: Path, path: Path, bit: int) -> bool:
    """Return whether the check of the index files or of the originals, which opens nothing, finds
    a flip in one of them; then the file is as before."""
    if path.parts[0] not in ("index", "originals"):
        return False
    flip(directory / path, bit)
    if path.parts[0] == "index":
        findings = check_index_files(engine.index, [DEFAULT_COLLECTION], repair=False)
    else:
        catalog = engine.catalog
        assert isinstance(catalog, SqlCatalog)
        originals = engine.intake.originals
        findings = check_content(catalog.database, originals, keeps_originals=True)
    is_found = any(one.state == "wrong" for one in findings)
    flip(directory / path, bit)
    return is_found


def count_outcomes(
    source: Path, files: list[Path], copy: Path, flips: int, chance: random.Random
) -> Counter[str]:
    """Flip bits in some files of a directory, each in a copy of its own; count the outcomes."""
    quick = copy.with_name("quick")
    shutil.copytree(source, copy)
    with closing(open_engine(copy)) as engine:
        before = describe(engine, copy)
    shutil.rmtree(copy)
    shutil.copytree(source, quick)
    counts: Counter[str] = Counter()
    with closing(open_engine(quick)) as engine:
        for _ in range(flips):
            path = chance.choice(files)
            bit = chance.randrange(8 * (source / path).stat().st_size)
            if is_found_quickly(engine, quick, path, bit):
                counts["found"] += 1
                continue
            shutil.copytree(source, copy)
            flip(copy / path, bit)
            outcome, said = judge(copy, before)
            shutil.rmtree(copy)
            counts[outcome] += 1
            if outcome == "missed":
                print(f"missed: bit {bit} of {path}: {said}", file=sys.stderr, flush=True)
    shutil.rmtree(quick)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=200, help="for each kind of file")
    parser.add_argument("--only", default="", help="kinds of files, by comma")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("ragstone").propagate = False
    logging.getLogger("ragstone.catalog.wal").addHandler(WARNINGS)
    local.EXACT_ROWS = 20
    chance = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="flips-"))
    clean, killed, copy = folder / "clean", folder / "killed", folder / "copy"
    asyncio.run(fill(clean, chance))
    for directory in (clean, killed):
        shutil.copytree(directory, copy)
        assert judge(copy, {})[0] == "harmless", judge(copy, {})
        shutil.rmtree(copy)
    sources = [(clean, kind, files) for kind, files in list_files(clean).items()]
    after_kill = ("catalog.db-wal", "catalog.db-shm")
    sources += [(killed, f"{one} (after a kill)", [Path(one)]) for one in after_kill]
    print("| file | files | bytes | flips | " + " | ".join(OUTCOMES) + " |")
    print("|---|" + "---:|" * (len(OUTCOMES) + 3))
    missed = 0
    for source, kind, files in sources:
        if options.only and kind.partition(" ")[0] not in options.only.split(","):
            continue
        counts = count_outcomes(source, files, copy, options.flips, chance)
        size = sum((source / path).stat().st_size for path in files)
        cells = [kind, len(files), f"{size:,}", options.flips, *(counts[one] for one in OUTCOMES)]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        missed += counts["missed"]
    shutil.rmtree(folder)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
