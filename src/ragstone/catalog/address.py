"""Read RAGSTONE_DATABASE_URL: the address of PostgreSQL, and how the connection is encrypted."""

from __future__ import annotations

import ssl
from contextlib import suppress

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


def read_encryption(address: URL) -> ssl.SSLContext | None:
    """Read `sslmode` and `sslrootcert` of a URL as PostgreSQL's own programs do.

    Without them, and with `prefer`, the connection is not encrypted: the driver does not try.
    """
    query = {name: str(value) for name, value in address.query.items()}
    mode, root = query.pop("sslmode", "prefer"), query.pop("sslrootcert", None)
    if mode not in _SSL_MODES or query:
        raise SettingsError(  # without the parameter: it may be a part of a password
            "Invalid value of RAGSTONE_DATABASE_URL: a parameter after '?' is not supported.",
            hint=f"Allowed: sslmode ({', '.join(_SSL_MODES)}) and sslrootcert (a file).",
        )
    if mode in ("disable", "allow", "prefer"):
        return None
    try:
        context = ssl.create_default_context(cafile=root)
    except OSError as error:
        raise SettingsError(
            f"The certificate file '{root}' of RAGSTONE_DATABASE_URL cannot be read: {error}.",
            hint="Give sslrootcert the path of a file in PEM format.",
        ) from error
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context
