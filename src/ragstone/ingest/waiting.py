"""Decide what is stored next: documents in the order of arrival, but nobody waits for a long one.

A file is finished after its documents, and a copy of a document comes after the document. That
stays so when a long one is overtaken: what depends on it waits with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ragstone.ingest.store import FinishedFile, PreparedDocument, get_file_source

Item: TypeAlias = PreparedDocument | FinishedFile


class WaitingLine:
    """Documents whose vectors are computed, and the ends of their files.

    A document with more than `long_chunks` chunks is overtaken.
    """

    def __init__(self, long_chunks: int) -> None:
        self._long_chunks = long_chunks
        self._queue: deque[Item] = deque()
        self._queued_chunks = 0
        self._long: list[PreparedDocument] = []
        self._behind_long: list[Item] = []

    @property
    def chunk_count(self) -> int:
        """Return the number of chunks in memory, without those of the longest document."""
        sizes = sorted(len(document.chunks) for document in self._long)
        return self._queued_chunks + sum(sizes[:-1])

    def put(self, item: Item) -> None:
        if isinstance(item, PreparedDocument):
            self._queued_chunks += len(item.chunks)
        self._queue.append(item)

    def get_waiting(self) -> Sequence[PreparedDocument]:
        """Return the documents that others wait for."""
        if self._queue and isinstance(self._queue[0], PreparedDocument):
            return [self._queue[0], *self._long]
        return list(self._long)

    def take_embedded(self) -> Iterator[Item]:
        """Take out what can be stored now."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, PreparedDocument):
                if not _is_embedded(item) and len(item.chunks) <= self._long_chunks:
                    break
                self._queued_chunks -= len(item.chunks)
            self._queue.popleft()
            yield from self._let_pass(item)
        for document in [item for item in self._long if _is_embedded(item)]:
            self._long.remove(document)
            yield document
            behind, self._behind_long = self._behind_long, []
            for item in behind:
                yield from self._let_pass(item)

    def _let_pass(self, item: Item) -> Iterator[Item]:
        """Yield an item unless it has to wait, for its vectors or for a long document."""
        if isinstance(item, PreparedDocument) and not _is_embedded(item):
            self._long.append(item)
        elif self._is_behind_long(item):
            self._behind_long.append(item)
        else:
            yield item

    def _is_behind_long(self, item: Item) -> bool:
        """Tell whether an item is a copy of a long document, or ends a file that is behind."""
        if isinstance(item, PreparedDocument):
            return any(other.document.id == item.document.id for other in self._long)
        behind = [other for other in self._behind_long if isinstance(other, PreparedDocument)]
        return any(get_file_source(other) == item.file.source for other in [*self._long, *behind])


def _is_embedded(document: PreparedDocument) -> bool:
    return document.vectors is None or document.vectors.is_done
