"""Test the address of the database: what is accepted, encrypted, and never shown."""

from __future__ import annotations

import ssl
import traceback

import pytest

from ragstone.catalog.address import parse_database_url, read_parameters
from ragstone.errors import SettingsError


@pytest.mark.parametrize(
    "url",
    [
        "nonsense-hunter2",
        "mysql://user:hunter2@host/name",
        "postgresql+psycopg2://user:hunter2@host/name",
        "postgresql://user:hunter2@host:port/name",
        "postgresql://user:two@hunter2:more@host:5432/name",
        "postgresql://user:two/hunter2@host:port/name",
        "postgresql://user:hunter2@host/name?sslmode=perhaps",
        "postgresql://user:hunter2@host/name?connect_timeout=3",
    ],
)
def test_an_invalid_database_url_is_refused_without_its_value(url: str) -> None:
    with pytest.raises(SettingsError, match="Invalid value of RAGSTONE_DATABASE_URL") as refused:
        read_parameters(parse_database_url(url))
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("name", ["postgres", "postgresql", "postgresql+pg8000"])
def test_every_name_of_postgresql_means_the_same_driver(name: str) -> None:
    address = parse_database_url(f"{name}://user:secret@host/name")
    assert address.drivername == "postgresql+pg8000"


@pytest.mark.parametrize(
    ("mode", "verifies", "compares_names"),
    [("verify-full", True, True), ("verify-ca", True, False), ("require", False, False)],
)
def test_sslmode_decides_what_is_verified(mode: str, verifies: bool, compares_names: bool) -> None:
    url = parse_database_url(f"postgresql://user@host/name?sslmode={mode}")
    context = read_parameters(url)["ssl_context"]
    assert context is not None
    assert (context.verify_mode == ssl.CERT_REQUIRED) is verifies
    assert context.check_hostname is compares_names
    plain = parse_database_url("postgresql://user@host/name?sslmode=disable")
    assert read_parameters(plain)["ssl_context"] is False
    offered = parse_database_url("postgresql://user@host/name")
    assert read_parameters(offered)["ssl_context"] is None


@pytest.mark.parametrize("name", ["host=/run/pg", "unix_sock=/run/pg/.s.PGSQL.5432"])
def test_a_local_socket_is_named_as_postgresql_or_the_driver_does(name: str) -> None:
    url = parse_database_url(f"postgresql://user@/name?{name}")
    assert read_parameters(url)["unix_sock"] == "/run/pg/.s.PGSQL.5432"
