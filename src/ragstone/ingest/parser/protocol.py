"""What a parser process and its keeper say to each other: JSON behind its length.

JSON and not pickle: a parser that a hostile file has taken over must not be able to run code here.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any

from ragstone.blocks import Block, Heading, LineBox, Loaded, LoadOptions
from ragstone.ingest.split import Chunking
from ragstone.types import Chunk

LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a parser process splits; `tokenizer` is a file of the `tokenizers` library."""

    tokenizer: str
    max_tokens: int
    chunking: Chunking


@dataclass(frozen=True, slots=True)
class Request:
    """One file to be read. `known_sha256` is what was read from it last time."""

    path: str
    name: str
    options: LoadOptions = field(default_factory=LoadOptions)
    max_file_bytes: int = 200_000_000
    max_memory_bytes: int = 1_000_000_000
    known_sha256: str | None = None
    split: SplitOptions | None = None


@dataclass(frozen=True, slots=True)
class ReadPart:
    """One document of a file as it came from the parser process."""

    member: str
    sha256: str
    loaded: Loaded | None = None
    chunks: tuple[Chunk, ...] | None = None
    error: str = ""
    hint: str = ""


def pack(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=str).encode()
    return LENGTH.pack(len(body)) + body


def pack_request(request: Request) -> bytes:
    return pack(asdict(request))


def unpack_request(message: dict[str, Any]) -> Request:
    split = message.pop("split")
    options = LoadOptions(**message.pop("options"))
    if split:
        split = SplitOptions(**split | {"chunking": Chunking(**split["chunking"])})
    return Request(**message, options=options, split=split)


def pack_part(part: ReadPart) -> bytes:
    message: dict[str, Any] = {
        "kind": "part", "member": part.member, "sha256": part.sha256,
        "error": part.error, "hint": part.hint,
    }  # fmt: skip
    if part.loaded is not None:
        message["loaded"] = asdict(part.loaded)
    if part.chunks is not None:
        message["chunks"] = [
            [c.start, c.end, c.page, list(c.heading_path), c.content_type, c.passage]
            for c in part.chunks
        ]
    return pack(message)


def unpack_part(message: dict[str, Any]) -> ReadPart:
    given = message.get("loaded")
    loaded = None
    if given is not None:
        loaded = Loaded(
            text=str(given["text"]),
            media_type=str(given["media_type"]),
            page_starts=tuple(given["page_starts"]),
            headings=tuple(Heading(**heading) for heading in given["headings"]),
            blocks=tuple(Block(**block) for block in given["blocks"]),
            lines=tuple(LineBox(**line) for line in given["lines"]),
            metadata=given["metadata"],
        )
    chunks = None
    if loaded is not None and message.get("chunks") is not None:
        chunks = tuple(
            Chunk(
                document_id="", index=index, text=loaded.text[start:end], start=start, end=end,
                page=page, heading_path=tuple(path), content_type=kind,
                passage=None if passage is None else (int(passage[0]), int(passage[1])),
            )
            for index, (start, end, page, path, kind, passage) in enumerate(message["chunks"])
        )  # fmt: skip
    return ReadPart(
        message["member"], message["sha256"], loaded, chunks, message["error"], message["hint"]
    )
