"""Verify the files of the embedded index by their checksums; the catalog repairs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ragstone.catalog.backup import Finding
from ragstone.errors import StoreError
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
        damaged = index.find_damage(collection, pause)
        if not damaged:
            yield Finding(subject, "ok", "they match their checksums")
            continue
        names = ", ".join(damaged)
        if not repair:
            yield Finding(subject, "wrong", f"damaged: {names}; run: ragstone doctor --deep")
            continue
        try:
            index.rebuild(collection)
        except StoreError as error:
            yield Finding(subject, "wrong", f"damaged: {names}; {error.message} {error.hint}")
        else:
            yield Finding(subject, "repaired", f"damaged: {names}; built again from the catalog")
