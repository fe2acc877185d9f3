"""Define the messages between a parser process and its supervisor: JSON behind its length.

`ragstone.processes` sends and receives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from ragstone.blocks import Block, Heading, LineBox, LoadedDocument, LoadOptions, ParsedPart
from ragstone.ingest.split import ChunkingOptions
from ragstone.processes import pack_message
from ragstone.types import Chunk, StoredUnit

# A message of this many chunks is read in a few milliseconds, in which nothing else runs.
_CHUNKS_PER_MESSAGE = 500
# What a parser process says of a chunk; its text is cut from the document's again.
_CHUNK_FIELDS = (
    "start", "end", "page", "heading_path", "content_type", "passage", "table_header", "context",
    "units",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """Tell a parser process how to split; `tokenizer` is a file of the `tokenizers` library."""

    tokenizer: str
    max_tokens: int
    chunking: ChunkingOptions


@dataclass(frozen=True, slots=True)
class Request:
    """Ask for one file. `known_sha256` is the hash of what was read from it last time."""

    path: str
    name: str
    options: LoadOptions = field(default_factory=LoadOptions)
    max_file_bytes: int = 200_000_000
    max_memory_bytes: int = 1_000_000_000
    known_sha256: str | None = None
    split: SplitOptions | None = None


def pack_request(request: Request) -> bytes:
    return pack_message(asdict(request))


def unpack_request(message: dict[str, Any]) -> Request:
    split = message.pop("split")
    options = LoadOptions(**message.pop("options"))
    if split:
        split = SplitOptions(**split | {"chunking": ChunkingOptions(**split["chunking"])})
    return Request(**message, options=options, split=split)


def pack_part(part: ParsedPart, *, has_chunks: bool = False) -> bytes:
    """Pack a document; with `has_chunks`, the messages of `pack_chunks` follow it."""
    message: dict[str, Any] = {
        "kind": "part",
        "member": part.member,
        "sha256": part.sha256,
        "error": part.error,
        "hint": part.hint,
        "has_chunks": has_chunks,
    }
    if part.loaded is not None:
        message["loaded"] = asdict(part.loaded)
    return pack_message(message)


def pack_chunks(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Pack the chunks of a document as they come; the last message holds none."""
    rows = ({name: getattr(chunk, name) for name in _CHUNK_FIELDS} for chunk in chunks)
    while batch := list(islice(rows, _CHUNKS_PER_MESSAGE)):
        yield pack_message({"kind": "chunks", "chunks": batch})
    yield pack_message({"kind": "chunks", "chunks": []})


def unpack_chunks(
    text: str, first_index: int, rows: Sequence[Mapping[str, Any]]
) -> Iterator[Chunk]:
    for index, row in enumerate(rows, first_index):
        start, end, passage = row["start"], row["end"], row["passage"]
        yield Chunk(
            document_id="",
            index=index,
            text=text[start:end],
            start=start,
            end=end,
            page=row["page"],
            heading_path=tuple(row["heading_path"]),
            content_type=row["content_type"],
            passage=None if passage is None else (int(passage[0]), int(passage[1])),
            table_header=row["table_header"],
            context=row["context"],
            units=tuple(StoredUnit(*unit) for unit in row["units"]),
        )


def unpack_part(message: dict[str, Any]) -> ParsedPart:
    loaded = None
    if (fields := message.get("loaded")) is not None:
        loaded = LoadedDocument(
            text=str(fields["text"]),
            media_type=str(fields["media_type"]),
            page_starts=tuple(fields["page_starts"]),
            headings=tuple(Heading(**heading) for heading in fields["headings"]),
            blocks=tuple(Block(**block) for block in fields["blocks"]),
            lines=tuple(LineBox(**line) for line in fields["lines"]),
            metadata=fields["metadata"],
        )
    return ParsedPart(
        message["member"],
        message["sha256"],
        loaded,
        error=message["error"],
        hint=message["hint"],
    )
