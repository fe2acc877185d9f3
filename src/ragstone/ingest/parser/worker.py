"""The parser process: requests on standard input, documents on standard output.

It is started by `pool.py` and may be killed at any moment; it holds nothing that is not in the
file it reads. A file can make it slow, large or dead, and nothing else: it cannot write files, and
its keeper stops it past its limits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from ragstone import system
from ragstone.errors import IngestError
from ragstone.ingest.discover import describe, detect_language, plain
from ragstone.ingest.formats.detect import Part, read
from ragstone.ingest.parser import protocol as frames
from ragstone.ingest.split import SentenceSplitter, tokenizer

# Queries and the rest of the machine come first.
_NICENESS = 5


def main() -> None:
    """Answer requests until standard input ends, which it does when the keeper is gone."""
    source, sink = _private_channels()
    system.lower_process_priority(_NICENESS)
    # The language model is unpacked through a temporary file, so it comes before the limits.
    detect_language("It is loaded before the first file is read.")
    system.forbid_writing_files()
    import json

    sink.write(frames.pack({"kind": "ready"}))
    sink.flush()
    while head := source.read(frames.LENGTH.size):
        body = source.read(frames.LENGTH.unpack(head)[0])
        for frame in answer(frames.unpack_request(json.loads(body))):
            sink.write(frame)
            sink.flush()


def _private_channels() -> tuple[IO[bytes], IO[bytes]]:
    """Keep the channels for ourselves: what a library prints must not end up between frames."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    return source, sink


def answer(request: frames.Request) -> Iterator[bytes]:
    """`begin` with the file's hash, a `part` per document, `end`; or `unchanged`."""
    # Addresses are taken in larger pieces than memory is used (every thread of a native library
    # reserves its own), so this is the second line; the keeper watches what is really used.
    system.limit_address_space(2 * request.max_memory_bytes)
    try:
        content, mtime_ns = _content(request)
    except IngestError as error:
        yield frames.pack({"kind": "begin", "sha256": "", "size": 0, "mtime_ns": 0})
        yield frames.pack_part(frames.ReadPart("", "", error=error.message, hint=error.hint))
        yield frames.pack({"kind": "end"})
        return
    sha256 = hashlib.sha256(content).hexdigest()
    yield frames.pack(
        {"kind": "begin", "sha256": sha256, "size": len(content), "mtime_ns": mtime_ns}
    )
    if sha256 == request.known_sha256:
        yield frames.pack({"kind": "unchanged"})
    else:
        for part in read(content, request.name, request.options):
            yield frames.pack_part(_prepared(part, request.split))
    yield frames.pack({"kind": "end"})


def _content(request: frames.Request) -> tuple[bytes, int]:
    try:
        with Path(request.path).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > request.max_file_bytes:
                raise IngestError(
                    f"The file has {status.st_size / 1e6:.1f} MB, more than the "
                    f"{request.max_file_bytes / 1e6:g} MB allowed.",
                    hint="Raise RAGSTONE_INGEST_MAX_FILE_MB or split it.",
                )
            return file.read(request.max_file_bytes + 1), status.st_mtime_ns
    except OSError as error:
        raise IngestError(
            f"The file cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error
    except MemoryError as error:
        raise IngestError(
            "Reading the file takes more memory than is allowed.",
            hint="Raise RAGSTONE_INGEST_MAX_MEMORY_MB or split it.",
        ) from error


def _prepared(part: Part, split: frames.SplitOptions | None) -> frames.ReadPart:
    """A part with its metadata completed and, where the tokenizer is known, its chunks."""
    if part.loaded is None:
        return frames.ReadPart(part.member, part.sha256, error=part.error, hint=part.hint)
    loaded = replace(part.loaded, metadata=plain(describe(part.loaded)))
    chunks = None
    if split is not None:
        counter = tokenizer(split.tokenizer, split.max_tokens)
        splitter = SentenceSplitter(counter, split.chunking)
        chunks = tuple(splitter.split(loaded, document_id="", document_name=""))
    return frames.ReadPart(part.member, part.sha256, loaded, chunks)


if __name__ == "__main__":
    main()
