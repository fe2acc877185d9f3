"""The way of a document: find → load → split → embed → store. Paths in, a report out.

Work is stored batch by batch. A run that is stopped loses at most the batch in hand; the same
command takes it up again, because what is stored is recognised by its bytes.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from ragstone.errors import IngestError
from ragstone.ingest.load.detect import known_suffixes, load
from ragstone.settings import IngestSettings
from ragstone.stages import Catalog, Embedder, Index, NewDocument, Splitter
from ragstone.types import Chunk, Document, IngestedFile, IngestReport

Progress: TypeAlias = Callable[[IngestedFile, int, int], None]
"""Called for each file with its outcome, its number from 1, and how many there are."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read and the name it is shown by."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A document that is split and waits for its vectors."""

    document: Document
    chunks: tuple[Chunk, ...]
    outcome: IngestedFile


class Ingestor:
    """Reads files into one collection."""

    def __init__(
        self, catalog: Catalog, index: Index, embedder: Embedder, splitter: Splitter,
        settings: IngestSettings,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._splitter = splitter
        self._settings = settings

    def run(
        self,
        paths: Sequence[Path],
        *,
        collection: str,
        upload_id: str | None = None,
        progress: Progress | None = None,
    ) -> IngestReport:
        files = find_files(paths)
        outcomes: list[IngestedFile] = []
        waiting: list[_Prepared] = []

        def done(outcome: IngestedFile) -> None:
            outcomes.append(outcome)
            if progress is not None:
                progress(outcome, len(outcomes), len(files))

        for file in files:
            prepared = self._prepare(file, collection, upload_id)
            if isinstance(prepared, IngestedFile):
                done(prepared)
                continue
            waiting.append(prepared)
            if sum(len(one.chunks) for one in waiting) >= self._settings.batch_chunks:
                self._store(waiting, done)
        self._store(waiting, done)
        self._index.refresh(collection)
        return IngestReport(collection, tuple(outcomes))

    def _prepare(
        self, file: FoundFile, collection: str, upload_id: str | None
    ) -> _Prepared | IngestedFile:
        try:
            content = self._read(file.path)
        except IngestError as error:
            return IngestedFile(file.name, "failed", error=error.message, hint=error.hint)
        source = str(file.path.resolve())
        document = Document(
            id=document_id(collection, content),
            collection=collection,
            source=source,
            name=file.name,
            media_type="application/octet-stream",
            sha256=hashlib.sha256(content).hexdigest(),
            upload_id=upload_id,
            created_at=time.time(),
        )
        held = self._catalog.current(collection, source)
        if held is not None and held.id == document.id and held.status == "indexed":
            return IngestedFile(file.name, "unchanged", held.id, held.chunk_count)
        return self._parse(document, content, "added" if held is None else "updated")

    def _parse(self, document: Document, content: bytes, outcome: str) -> _Prepared | IngestedFile:
        try:
            loaded = load(content, document.name)
            chunks = self._splitter.split(
                loaded, document_id=document.id, document_name=document.name
            )
            if not chunks:
                raise IngestError("The file holds no text.", hint="There is nothing to search.")
        except IngestError as error:
            failed = replace(document, status="failed", error=error.message)
            self._catalog.add_failure(failed)
            return IngestedFile(document.name, "failed", document.id, 0, error.message, error.hint)
        ready = replace(
            document,
            media_type=loaded.media_type,
            text=loaded.text,
            metadata=loaded.metadata,
            chunk_count=len(chunks),
        )
        return _Prepared(
            ready,
            tuple(chunks),
            IngestedFile(ready.name, "updated" if outcome == "updated" else "added", ready.id,
                         len(chunks)),
        )  # fmt: skip

    def _read(self, path: Path) -> bytes:
        limit = int(self._settings.max_file_mb * 1_000_000)
        try:
            size = path.stat().st_size
            if size > limit:
                raise IngestError(
                    f"The file has {size / 1e6:.1f} MB, more than the {limit / 1e6:g} MB allowed.",
                    hint="Raise RAGSTONE_INGEST_MAX_FILE_MB or split it.",
                )
            return path.read_bytes()
        except OSError as error:
            raise IngestError(
                f"The file cannot be read: {error.strerror}.", hint="Check its permissions."
            ) from error

    def _store(self, waiting: list[_Prepared], done: Callable[[IngestedFile], None]) -> None:
        """Embed and store what is waiting, as one batch and one commit."""
        if not waiting:
            return
        vectors = self._embedder.embed(
            [chunk.contextual_text for one in waiting for chunk in one.chunks]
        )
        batch: list[NewDocument] = []
        begin = 0
        for one in waiting:
            end = begin + len(one.chunks)
            batch.append(NewDocument(one.document, one.chunks, vectors[begin:end]))
            begin = end
        self._catalog.add(batch, embedder=self._embedder.name)
        for one in waiting:
            done(one.outcome)
        waiting.clear()


def document_id(collection: str, content: bytes) -> str:
    """The same bytes in a collection are the same document, whoever reads them and when."""
    digest = hashlib.sha256(collection.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:24]


def find_files(paths: Sequence[Path]) -> list[FoundFile]:
    """Every file named, and every readable type below every folder named, in a fixed order."""
    found: dict[Path, FoundFile] = {}
    for path in paths:
        if path.is_dir():
            inside = list(_walk(path))
            if not inside:
                raise IngestError(
                    f"The folder '{path}' holds no documents.",
                    hint=f"Ragstone reads {', '.join(sorted(known_suffixes()))} files.",
                )
        elif path.exists():
            inside = [FoundFile(path, path.name)]
        else:
            raise IngestError(
                f"There is no file or folder '{path}'.", hint="Check the spelling of the path."
            )
        for file in inside:
            found.setdefault(file.path.resolve(), file)
    return list(found.values())


def _walk(root: Path) -> Iterator[FoundFile]:
    def refuse(error: OSError) -> None:
        raise IngestError(
            f"The folder '{error.filename}' cannot be read: {error.strerror}.",
            hint="Check its permissions.",
        ) from error

    suffixes = known_suffixes()
    for folder, folders, names in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix.lower() in suffixes and not name.startswith("."):
                yield FoundFile(path, path.relative_to(root).as_posix())
