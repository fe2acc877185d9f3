"""Identify the caller by a key (`Authorization: Bearer …` or `X-API-Key: …`), with its rights.

A server without any key is open, and the caller is the machine's own user; `ragstone serve` allows
that on loopback only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from fastapi import Request

from ragstone.catalog.documents import document_not_found
from ragstone.catalog.keys import KeyRing, Role
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError, UnauthorizedError
from ragstone.server.limits import RateLimits
from ragstone.types import Document

ALL_COLLECTIONS = ("*",)


@dataclass(frozen=True, slots=True)
class Caller:
    """Identify the sender of a request. `collections` are names or patterns; an admin has all."""

    owner: str
    role: Role
    collections: tuple[str, ...] = ALL_COLLECTIONS
    key_id: str = ""

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    def can_read(self, collection: str) -> bool:
        return self.is_admin or any(fnmatchcase(collection, name) for name in self.collections)

    def can_write(self, collection: str) -> bool:
        return self.role != "reader" and self.can_read(collection)

    def can_see(self, owner: str | None) -> bool:
        """Check if they may see the sessions and queries of an owner."""
        return self.is_admin or owner == self.owner

    def require_read(self, collection: str) -> None:
        if not self.can_read(collection):
            raise ForbiddenError(
                f"This key cannot read the collection '{collection}'.",
                hint=self._describe_collections(),
            )

    def require_write(self, collection: str) -> None:
        self.require_writer()
        if not self.can_write(collection):
            raise ForbiddenError(
                f"This key cannot write to the collection '{collection}'.",
                hint=self._describe_collections(),
            )

    def require_writer(self) -> None:
        """Refuse a reader before the body is read."""
        if self.role == "reader":
            raise ForbiddenError(
                "This key can only read.", hint="Ask for a key with the role writer."
            )

    def require_admin(self) -> None:
        if not self.is_admin:
            raise ForbiddenError(
                "This needs the role admin.", hint="Ask the administrator of this server."
            )

    def choose_owner(self, named: str | None) -> str:
        """Return whose history is meant: the caller's own; an admin may name another owner."""
        if named is not None and not self.can_see(named):
            self.require_admin()
        return named or self.owner

    def find_document(self, engine: Engine, document_id: str) -> Document:
        """Return a document; hide the existence of one that they cannot read."""
        document = engine.catalog.document(document_id)
        if not self.can_read(document.collection):
            raise document_not_found(document_id)
        return document

    def _describe_collections(self) -> str:
        return f"It is for: {', '.join(self.collections) or 'none'}."


LOCAL_CALLER = Caller("local", "admin")
"""The user of this machine, while there are no keys."""


async def authenticate_request(request: Request) -> Caller:
    """Identify the caller of a request and count it against their limit, or refuse it."""
    keys: KeyRing = request.app.state.keys
    limits: RateLimits = request.app.state.rate_limits
    caller = authenticate_key(keys, _read_key(request)) if keys.has_keys() else LOCAL_CALLER
    await limits.count_key(caller.key_id)
    request.state.caller = caller
    return caller


def _read_key(request: Request) -> str | None:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return secret.strip()
    return request.headers.get("x-api-key")


def authenticate_key(keys: KeyRing, secret: str | None) -> Caller:
    """Return the caller with this key, or refuse and say what is wrong with it."""
    if not secret:
        raise UnauthorizedError(
            "This server requires a key.",
            hint="Send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
        )
    key = keys.find_key(secret)
    if key is None:
        raise UnauthorizedError("Unknown key.", hint="Ask the administrator of this server.")
    if key.state != "active":
        raise UnauthorizedError(f"This key is {key.state}.", hint="Ask for a new one.")
    return Caller(key.owner, key.role, key.collections, key.id)
