"""Verify the files of the embedded index by their checksums; the catalog repairs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ragstone.catalog.backup import Finding
from ragstone.errors import StoreBusyError, StoreError
from ragstone.index.local import EmbeddedIndex
from ragstone.protocols import Index


def check_index_files(
    index: Index,
    collections: Iterable[str],
    *,
    repair: bool,
    pause: Callable[[], None] = lambda: None,
) -> Iterator[Finding]:
    """Compare the files of each collection's index with their checksums; build wrong ones again.

    An index on a server has checksums of its own.
    """
    if not isinstance(index, EmbeddedIndex):
        return
    for collection in collections:
        subject = f"index files of {collection}"
        found = index.find_damage(collection, pause)
        try:
            damaged = index.confirm_damage(collection, repair=repair) if found else []
        except StoreError as error:
            state = "being written or damaged" if isinstance(error, StoreBusyError) else "damaged"
            detail = f"{state}: {', '.join(found)}; {error.message} {error.hint}"
            yield Finding(subject, "wrong", detail)
            continue
        names = ", ".join(damaged)
        if not damaged:
            yield Finding(subject, "ok", "they match their checksums")
        elif repair:
            yield Finding(subject, "repaired", f"damaged: {names}; built again from the catalog")
        else:
            yield Finding(subject, "wrong", f"damaged: {names}; run: ragstone doctor --deep")
