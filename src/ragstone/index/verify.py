"""Verify an index: its files by their checksums, or its chunks on a server with the catalog."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator

from ragstone.catalog.backup import Finding
from ragstone.errors import StoreBusyError, StoreError, StoreUnavailableError
from ragstone.index.local import EmbeddedIndex
from ragstone.index.remote import RemoteIndex
from ragstone.protocols import Index


def check_index_files(
    index: Index,
    collections: Iterable[str],
    *,
    repair: bool,
    pause: Callable[[], None] = lambda: None,
) -> Iterator[Finding]:
    """Compare the files of each collection's index with their checksums; build wrong ones again.

    An index on a server is compared chunk by chunk with the catalog.
    """
    if isinstance(index, RemoteIndex):
        for collection in collections:
            yield _check_server(index, collection, repair=repair, pause=pause)
    if not isinstance(index, EmbeddedIndex):
        return
    for collection in collections:
        subject = f"index files of {collection}"
        found: list[str] = []
        try:
            found = index.find_damage(collection, pause)
            damaged = index.confirm_damage(collection, repair=repair) if found else []
        except OSError as error:
            yield Finding(
                subject, "wrong", f"they cannot be read ({error.strerror}); check the disk"
            )
            continue
        except StoreUnavailableError:
            raise
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


def _check_server(
    index: RemoteIndex, collection: str, *, repair: bool, pause: Callable[[], None]
) -> Finding:
    """Compare the terms and vectors on the server with the catalog; write them again if wrong."""
    subject = f"index content of {collection}"
    try:
        if repair:
            index.refresh(collection)
        found = index.compare_content(collection, pause, catch_up=repair)
        if not found:
            return Finding(subject, "ok", "terms and vectors of every chunk match the catalog")
        detail = ", ".join(f"{count:,} chunks {name}" for name, count in found.items())
        if not repair:
            command = f"ragstone reindex --collection {shlex.quote(collection)}"
            return Finding(subject, "wrong", f"{detail}; run: {command}")
        index.rebuild(collection)
    except StoreError as error:
        return Finding(subject, "wrong", f"{error.message} {error.hint}")
    return Finding(subject, "repaired", f"{detail}; written again from the catalog")
