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


@dataclass(frozen=True, slots=True)
class Packed:
    """A JSON object under the hash of its content: the same content is stored once."""

    id: str
    content: bytes

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Packed:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        # 32 hexadecimal digits: 2^64 answers before two of them would meet by chance.
        return cls(hashlib.sha256(text).hexdigest()[:32], zlib.compress(text, 1))

    def unpacked(self) -> dict[str, Any]:
        return unpack(self.content)


def unpack(content: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(zlib.decompress(content))
    return value


class PackedTrace(Mapping[str, Any]):
    """The record of a query whose waterfall is unpacked when somebody looks at it."""

    __slots__ = ("_own", "evidence")

    def __init__(self, own: Mapping[str, Any], evidence: Packed) -> None:
        self._own = {name: value for name, value in own.items() if name != WATERFALL}
        self.evidence = evidence

    @property
    def own(self) -> Mapping[str, Any]:
        """What belongs to this query alone."""
        return self._own

    def __getitem__(self, name: str) -> Any:
        return self.evidence.unpacked()[WATERFALL] if name == WATERFALL else self._own[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield WATERFALL

    def __len__(self) -> int:
        return len(self._own) + 1
