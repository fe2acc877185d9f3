"""Run as a parser process: requests on standard input, documents on standard output.

It is started by `pool.py` and may be killed at any moment; it holds nothing that is not in the
file it reads. A file can make it slow, large or dead, and nothing else: it cannot write files, and
its supervisor stops it past its limits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ragstone import system
from ragstone.blocks import ParsedPart
from ragstone.errors import IngestError
from ragstone.ingest.formats.read import read_parts
from ragstone.ingest.metadata import complete_metadata, detect_language, to_json_value
from ragstone.ingest.parser import protocol
from ragstone.ingest.split import SentenceSplitter, load_tokenizer
from ragstone.processes import answer_requests, pack_message


def main() -> None:
    # The language model is unpacked through a temporary file, so it comes before the limits.
    answer_requests(
        lambda message: answer(protocol.unpack_request(message)),
        lambda: detect_language("It is loaded before the first file is read."),
    )


def answer(request: protocol.Request) -> Iterator[bytes]:
    """Yield `begin` with the file's hash, then `unchanged` or a `part` per document, then `end`."""
    # Addresses are taken in larger pieces than memory is used (every thread of a native library
    # reserves its own), so this is the second limit; the supervisor watches the memory in use.
    system.limit_address_space(2 * request.max_memory_bytes)
    content, mtime_ns, sha256 = b"", 0, ""
    error: IngestError | None = None
    try:
        content, mtime_ns = _read_file(request)
        sha256 = hashlib.sha256(content).hexdigest()
    except IngestError as reason:
        error = reason
    begin = {"kind": "begin", "sha256": sha256, "size": len(content), "mtime_ns": mtime_ns}
    yield pack_message(begin)
    if error is not None:
        yield protocol.pack_part(ParsedPart("", "", error=error.message, hint=error.hint))
    elif sha256 == request.known_sha256:
        yield pack_message({"kind": "unchanged"})
    else:
        for part in read_parts(content, request.name, request.options):
            yield from _pack_part(part, request.split)
    yield pack_message({"kind": "end"})


def _read_file(request: protocol.Request) -> tuple[bytes, int]:
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


def _pack_part(part: ParsedPart, split: protocol.SplitOptions | None) -> Iterator[bytes]:
    """Complete the metadata of a part and, if the tokenizer is known, let its chunks follow."""
    if part.loaded is None:
        yield protocol.pack_part(part)
        return
    loaded = replace(part.loaded, metadata=to_json_value(complete_metadata(part.loaded)))
    yield protocol.pack_part(replace(part, loaded=loaded), has_chunks=split is not None)
    if split is not None:
        counter = load_tokenizer(split.tokenizer, split.max_tokens)
        splitter = SentenceSplitter(counter, split.chunking)
        chunks = splitter.iterate(loaded, document_id="", document_name="")
        yield from protocol.pack_chunks(chunks)


if __name__ == "__main__":
    main()
