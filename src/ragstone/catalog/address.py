"""Read RAGSTONE_DATABASE_URL: the address of PostgreSQL, and how it is connected to."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ragstone.errors import SettingsError

# Names of PostgreSQL in a URL that mean the driver in use, or none in particular.
_POSTGRESQL = frozenset({"postgresql", "postgres", "postgresql+pg8000"})
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def parse_database_url(url: str | URL) -> URL:
    """Read the address of an SQLite file or of PostgreSQL, with the driver that is used."""
    with suppress(ArgumentError, ValueError):  # ValueError: a port that is not a number
        address = make_url(url)
        if address.drivername in _POSTGRESQL:
            return address.set(drivername="postgresql+pg8000")
        if address.get_backend_name() == "sqlite":
            return address
    # Without the value and without the cause: both may contain a password.
    raise SettingsError(
        "Invalid value of RAGSTONE_DATABASE_URL: it is not the address of a PostgreSQL database.",
        hint="Use postgresql://USER:PASSWORD@HOST:5432/DATABASE. In a password write @ as "
        "%40, : as %3A, / as %2F and % as %25.",
    )


def read_parameters(address: URL) -> dict[str, Any]:
    """Return what the parameters of a URL mean for the driver: encryption, a local socket.

    They are those of PostgreSQL's own programs, and `unix_sock` of the driver.
    """
    query = {name: str(value) for name, value in address.query.items()}
    mode, root = query.pop("sslmode", "prefer"), query.pop("sslrootcert", None)
    # None: the driver encrypts where the server offers it.
    found: dict[str, Any] = {"ssl_context": False if mode == "disable" else None}
    if query.get("host", "").startswith("/"):
        found["unix_sock"] = f"{query.pop('host')}/.s.PGSQL.{address.port or 5432}"
    elif "unix_sock" in query:
        found["unix_sock"] = query.pop("unix_sock")
    if mode not in _SSL_MODES or query:
        raise SettingsError(  # without the parameter: it may be a part of a password
            "Invalid value of RAGSTONE_DATABASE_URL: a parameter after '?' is not supported.",
            hint=f"Allowed: sslmode ({', '.join(_SSL_MODES)}), sslrootcert (a file) and host (the "
            "directory of a local socket).",
        )
    if mode not in _SSL_MODES[:3]:
        found["ssl_context"] = _make_context(mode, root)
    return found


def _make_context(mode: str, root: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=root)
    except OSError as error:
        raise SettingsError(
            f"The certificate file '{root}' of RAGSTONE_DATABASE_URL cannot be read: {error}.",
            hint="Give sslrootcert the path of a file in PEM format.",
        ) from error
    context.check_hostname = mode == "verify-full"
    if mode == "require" and root is None:  # with a root it is verified, as libpq does
        context.verify_mode = ssl.CERT_NONE
    return context
