"""API keys in the catalog's own database: made, listed, revoked, recognised.

A key is 256 random bits, so its SHA-256 is all that is kept: there is nothing to guess, and a slow
hash would only slow every request down.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import select

from ragstone.catalog.schema import keys as table
from ragstone.catalog.uploads import Transactions
from ragstone.errors import InputError, NotFoundError

Role: TypeAlias = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")

_PREFIX = "rs"
# A revoked key is refused everywhere within this time; a look into the database at every request
# would cost as much as a keyword search.
_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of a key; the key itself was shown once and is gone."""

    id: str
    owner: str
    role: Role
    collections: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= time.time():
            return "expired"
        return "active"


class KeyRing:
    """The keys of a catalog, remembered for a moment."""

    def __init__(self, catalog: Transactions) -> None:
        self._catalog = catalog
        self._known: dict[str, tuple[str, Key]] = {}
        self._read_at = float("-inf")

    def create(
        self, owner: str, *, role: Role, collections: Sequence[str], expires_in_s: float | None
    ) -> tuple[str, Key]:
        """A new key, to be shown once, and what is kept of it."""
        if not owner.strip() or len(owner) > 100 or not owner.isprintable():
            raise InputError(
                "The owner of a key needs a name of at most 100 characters.",
                hint="Try: ragstone keys create alice",
            )
        now = time.time()
        expires_at = None if expires_in_s is None else now + expires_in_s
        key = Key(secrets.token_hex(4), owner, role, tuple(collections), now, expires_at)
        secret = f"{_PREFIX}_{key.id}_{secrets.token_urlsafe(32)}"
        with self._catalog.transaction() as connection:
            connection.execute(
                table.insert().values(
                    id=key.id, owner=owner, role=role, collections=list(collections),
                    digest=_digest(secret), created_at=now, expires_at=expires_at,
                )
            )  # fmt: skip
        self._read_at = float("-inf")
        return secret, key

    def list(self) -> list[Key]:
        """Every key, newest first, also those that no longer open anything."""
        newest = table.c.created_at.desc(), table.c.id
        with self._catalog.reading() as connection:
            return [_key(row) for row in connection.execute(select(table).order_by(*newest))]

    def revoke(self, key_id: str) -> Key:
        now = time.time()
        with self._catalog.transaction() as connection:
            wanted = table.c.id == key_id
            connection.execute(
                table.update().where(wanted, table.c.revoked_at.is_(None)).values(revoked_at=now)
            )
            row = connection.execute(select(table).where(wanted)).first()
        if row is None:
            raise NotFoundError(
                f"There is no key with the id '{key_id}'.", hint="List them: ragstone keys list"
            )
        self._read_at = float("-inf")
        return _key(row)

    def recognise(self, secret: str) -> Key | None:
        """The key that a client sent, whatever its state; None when nobody has it."""
        key_id = secret[len(_PREFIX) + 1 :].partition("_")[0]
        self._refresh(_FRESH_S if key_id in self._known else 0)  # one just made opens at once
        digest, key = self._known.get(key_id, ("", None))
        return key if hmac.compare_digest(digest, _digest(secret)) else None

    def any(self) -> bool:
        """Whether a key was ever made. One that was revoked still counts: taking the last key
        away must not open the doors."""
        self._refresh()
        return bool(self._known)

    def _refresh(self, fresh_s: float = _FRESH_S) -> None:
        if time.monotonic() - self._read_at < fresh_s:
            return
        with self._catalog.reading() as connection:
            rows = connection.execute(select(table)).all()
        self._known = {row.id: (row.digest, _key(row)) for row in rows}
        self._read_at = time.monotonic()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _key(row: Any) -> Key:
    return Key(
        row.id, row.owner, row.role, tuple(row.collections),
        row.created_at, row.expires_at, row.revoked_at,
    )  # fmt: skip
