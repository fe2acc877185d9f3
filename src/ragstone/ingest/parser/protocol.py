"""Define the messages between a parser process and its supervisor: JSON behind its length.

`ragstone.processes` sends and receives them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ragstone.blocks import Block, Heading, LineBox, LoadedDocument, LoadOptions, ParsedPart
from ragstone.ingest.split import ChunkingOptions
from ragstone.processes import pack_message
from ragstone.types import Chunk

# What a parser process says of a chunk; its text is cut from the document's again.
_CHUNK_FIELDS = (
    "start", "end", "page", "heading_path", "content_type", "passage", "table_header", "context",
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


def pack_part(part: ParsedPart) -> bytes:
    message: dict[str, Any] = {
        "kind": "part",
        "member": part.member,
        "sha256": part.sha256,
        "error": part.error,
        "hint": part.hint,
    }
    if part.loaded is not None:
        message["loaded"] = asdict(part.loaded)
    if part.chunks is not None:
        message["chunks"] = [
            {name: getattr(chunk, name) for name in _CHUNK_FIELDS} for chunk in part.chunks
        ]
    return pack_message(message)


def unpack_part(message: dict[str, Any]) -> ParsedPart:
    loaded, chunks = None, None
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
        if message.get("chunks") is not None:
            chunks = tuple(
                _unpack_chunk(loaded.text, index, one)
                for index, one in enumerate(message["chunks"])
            )
    return ParsedPart(
        message["member"], message["sha256"], loaded, chunks, message["error"], message["hint"]
    )


def _unpack_chunk(text: str, index: int, fields: dict[str, Any]) -> Chunk:
    start, end, passage = fields.pop("start"), fields.pop("end"), fields.pop("passage")
    return Chunk(
        document_id="",
        index=index,
        text=text[start:end],
        start=start,
        end=end,
        heading_path=tuple(fields.pop("heading_path")),
        passage=None if passage is None else (int(passage[0]), int(passage[1])),
        **fields,
    )
