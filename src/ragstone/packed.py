"""The large part of an answer's record, compressed: what is the same each time it is given.

The waterfall of one answer is some hundred small dictionaries. As objects they take 15 times the
room of their compressed JSON, and each repeat of the answer would write them down again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WATERFALL = "waterfall"
_LENGTH_BYTES = 4


class PackedObject(Mapping[str, Any]):
    """A JSON object as its compressed text; every look at it unpacks it."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> PackedObject:
        if isinstance(value, PackedObject):
            return value
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return cls(zlib.compress(text.encode(), 1))

    def unpacked(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(zlib.decompress(self.content))
        return value

    def __getitem__(self, name: str) -> Any:
        return self.unpacked()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.unpacked())

    def __len__(self) -> int:
        return len(self.unpacked())


@dataclass(frozen=True, slots=True)
class Packed:
    """What an answer rests on, with its waterfall, under the hash of its content: the same content
    is stored once."""

    id: str
    content: bytes

    @classmethod
    def of(cls, value: Mapping[str, Any], waterfall: Mapping[str, Any]) -> Packed:
        head, tail = PackedObject.of(value).content, PackedObject.of(waterfall).content
        content = len(head).to_bytes(_LENGTH_BYTES) + head + tail
        # 32 hexadecimal digits: 2^64 answers before two of them would meet by chance.
        return cls(hashlib.sha256(content).hexdigest()[:32], content)

    @property
    def waterfall(self) -> PackedObject:
        return PackedObject(self.content[_LENGTH_BYTES + self._head_bytes :])

    def value(self) -> dict[str, Any]:
        """All but the waterfall."""
        return PackedObject(self.content[_LENGTH_BYTES:][: self._head_bytes]).unpacked()

    @property
    def _head_bytes(self) -> int:
        return int.from_bytes(self.content[:_LENGTH_BYTES])


class PackedTrace(Mapping[str, Any]):
    """The record of a query whose waterfall is unpacked when somebody looks at it."""

    __slots__ = ("evidence", "own")

    def __init__(self, own: Mapping[str, Any], evidence: Packed) -> None:
        self.own = {name: value for name, value in own.items() if name != WATERFALL}
        """What belongs to this query alone."""
        self.evidence = evidence

    def __getitem__(self, name: str) -> Any:
        return self.evidence.waterfall.unpacked() if name == WATERFALL else self.own[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield WATERFALL

    def __len__(self) -> int:
        return len(self.own) + 1
