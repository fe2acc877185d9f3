"""Who is calling, and what they may read and write: `Authorization: Bearer …` or `X-API-Key: …`.

`caller_of` stands before every door that has a `CallerDep`. Where no key was ever made the server
is open, and the caller is the machine's own user; `ragstone serve` sees to it that this happens on
loopback only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from ragstone.catalog.documents import no_document
from ragstone.catalog.keys import Key, KeyRing, Role
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError, UnauthorizedError
from ragstone.server.rate import Rates
from ragstone.types import Document

EVERYTHING = ("*",)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. `collections` are names or patterns; an admin may use all of them."""

    owner: str
    role: Role
    collections: tuple[str, ...] = EVERYTHING
    key_id: str = ""

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    def may_read(self, collection: str) -> bool:
        return self.is_admin or any(fnmatchcase(collection, name) for name in self.collections)

    def may_write(self, collection: str) -> bool:
        return self.role != "reader" and self.may_read(collection)

    def may_see(self, owner: str | None) -> bool:
        """Whether a session or a query of the history is theirs to look at."""
        return self.is_admin or owner == self.owner

    def require_read(self, collection: str) -> None:
        if not self.may_read(collection):
            raise ForbiddenError(
                f"This key may not read the collection '{collection}'.", hint=self._allowed()
            )

    def require_write(self, collection: str) -> None:
        self.require_writer()
        if not self.may_write(collection):
            raise ForbiddenError(
                f"This key may not write to the collection '{collection}'.", hint=self._allowed()
            )

    def require_writer(self) -> None:
        """Before a body is read: that they may write anywhere at all."""
        if self.role == "reader":
            raise ForbiddenError(
                "This key may only read.", hint="Ask for a key with the role writer."
            )

    def require_admin(self) -> None:
        if not self.is_admin:
            raise ForbiddenError("This needs the role admin.", hint="Ask whoever runs the server.")

    def readable_document(self, engine: Engine, document_id: str) -> Document:
        """A document by id; that one exists which they may not read is not told."""
        document = engine.catalog.document(document_id)
        if not self.may_read(document.collection):
            raise no_document(document_id)
        return document

    def _allowed(self) -> str:
        return f"It is for: {', '.join(self.collections) or 'none'}."


LOCAL = Caller("local", "admin")
"""Whoever sits at the machine."""

_bearer = HTTPBearer(auto_error=False, description="A key of `ragstone keys create`.")
_header = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same in one header.")


async def caller_of(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    header: Annotated[str | None, Depends(_header)],
) -> Caller:
    """The two headers stand here for the OpenAPI's sake; `admitted_request` reads them itself."""
    return await admitted_request(request)


async def admitted_request(request: Request) -> Caller:
    """Who sent a request, counted against their limit, or a refusal."""
    keys: KeyRing = request.app.state.keys
    rates: Rates = request.app.state.rates
    caller = admitted(keys, _secret(request)) if keys.any() else LOCAL
    await rates.spend_key(caller.key_id)
    request.state.caller = caller
    return caller


def _secret(request: Request) -> str | None:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return secret.strip()
    return request.headers.get("x-api-key")


def admitted(keys: KeyRing, secret: str | None) -> Caller:
    """The caller with this key, or a refusal that says what is wrong with it."""
    if not secret:
        raise UnauthorizedError(
            "This server wants a key.",
            hint="Send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
        )
    key = keys.recognise(secret)
    if key is None:
        raise UnauthorizedError("This key is not known.", hint="Ask whoever runs the server.")
    if key.state != "active":
        raise UnauthorizedError(f"This key is {key.state}.", hint="Ask for a new one.")
    return _caller(key)


def _caller(key: Key) -> Caller:
    return Caller(key.owner, key.role, key.collections, key.id)


async def known_caller(request: Request) -> Caller:
    """Whom `caller_of` has admitted. It stands before every door that takes a caller, so a door
    without it fails; asking it again in each door would cost three look-ups more."""
    caller: Caller = request.state.caller
    return caller


CallerDep = Annotated[Caller, Depends(known_caller)]
