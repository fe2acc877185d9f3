"""Read a document from a URL that the settings allow: URL → a file in the spool folder and a name.

The name of the host is resolved once, its addresses are checked, and the connection goes to one of
those: a name that changes its address in between changes nothing. Every redirect is checked anew.
"""

from __future__ import annotations

import asyncio
import ipaddress
import mimetypes
import socket
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

import httpx

from ragstone.errors import ForbiddenError, InputError
from ragstone.settings.services import ServerSettings
from ragstone.threads import run_in_thread

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}
# Addresses that hold one of IPv4, which a gateway may reach: NAT64, and the old "compatible" ones.
_EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))


@dataclass(frozen=True, slots=True)
class Target:
    """Hold a URL that may be read, and the address to connect to."""

    url: str
    scheme: str
    host: str
    port: int
    address: str

    @property
    def pinned_url(self) -> str:
        """Return the same URL with the address in the place of the name."""
        parts = urlsplit(self.url)
        shown = f"[{self.address}]" if ":" in self.address else self.address
        return parts._replace(netloc=f"{shown}:{self.port}", fragment="").geturl()


async def fetch_document(url: str, path: Path, options: ServerSettings) -> str:
    """Write what is behind a URL to `path`, and return a name for the document."""
    try:
        async with asyncio.timeout(options.import_timeout_s):
            return await _follow(url, path, options)
    except TimeoutError as error:
        raise InputError(
            f"Reading the URL took longer than {options.import_timeout_s:g} seconds.",
            hint="Download the file and upload it.",
        ) from error
    except httpx.HTTPError as error:
        raise InputError(
            f"The URL cannot be read ({type(error).__name__}).",
            hint="Check the address, or download the file and upload it.",
        ) from error
    except (ValueError, httpx.InvalidURL) as error:  # of the address, or of a redirect
        raise InputError("Invalid URL.", hint="Use https://HOST/PATH.") from error


async def _follow(url: str, path: Path, options: ServerSettings) -> str:
    # No proxy of the environment: it would connect by name, past the check of the address.
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False) as client:
        for _ in range(_MAX_REDIRECTS + 1):
            target = await check_url(url, options)
            headers = {"Host": urlsplit(target.url).netloc, "Accept-Encoding": "identity"}
            extensions = {"sni_hostname": target.host}
            async with client.stream(
                "GET", target.pinned_url, headers=headers, extensions=extensions
            ) as reply:
                if reply.status_code in _REDIRECTS and "location" in reply.headers:
                    url = urljoin(target.url, reply.headers["location"])
                    continue
                if reply.status_code != 200:
                    raise InputError(
                        f"The URL answered with the status {reply.status_code}.",
                        hint="Open it in a browser to see why.",
                    )
                await _save(reply, path, options)
                return name_document(target.url, reply.headers.get("content-type", ""))
    raise InputError(
        f"The URL redirects more than {_MAX_REDIRECTS} times.", hint="Use its final address."
    )


async def _save(reply: httpx.Response, path: Path, options: ServerSettings) -> None:
    most = int(options.import_max_mb * 1_000_000)
    size = 0
    if reply.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise InputError(
            "The server sends the file compressed, although it was asked not to.",
            hint="Download the file and upload it.",
        )
    with await run_in_thread("intake", path.open, "wb") as file:
        async for piece in reply.aiter_raw():
            size += len(piece)
            if size > most:
                raise InputError(
                    f"The file behind the URL is larger than {options.import_max_mb:g} MB.",
                    hint="Raise RAGSTONE_SERVER_IMPORT_MAX_MB, or upload the file.",
                )
            await run_in_thread("intake", file.write, piece)


async def check_url(url: str, options: ServerSettings) -> Target:
    """Return where a URL leads; raise an error if the settings do not allow to read it."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise InputError(f"Invalid URL: {error}.", hint="Use https://HOST/PATH.") from error
    host = (parts.hostname or "").lower()
    if parts.scheme not in _PORTS or not host or parts.username is not None:
        raise InputError("Invalid URL.", hint="Use https://HOST/PATH, without a user name.")
    if not any(_matches(host, allowed) for allowed in list_hosts(options)):
        raise ForbiddenError(
            f"Documents may not be imported from '{host}'.",
            hint="An admin can allow the host with IMPORT_HOSTS.",
        )
    address = await _resolve(host, port, options)
    return Target(url, parts.scheme, host, port, address)


def list_hosts(options: ServerSettings) -> list[str]:
    """List the hosts from which documents may be imported; empty when that is switched off."""
    return [host.strip().lower() for host in options.import_hosts.split(",") if host.strip()]


def _matches(host: str, allowed: str) -> bool:
    """Compare a host with an entry of the list: a name, or `*.example.org` for names below it."""
    return host.endswith(allowed[1:]) if allowed.startswith("*.") else host == allowed


async def _resolve(host: str, port: int, options: ServerSettings) -> str:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the name is too long
        raise InputError(f"The host '{host}' is not known.", hint="Check the URL.") from error
    addresses = [str(info[4][0]) for info in found]
    # All of them: which one is used must not depend on chance.
    if not options.import_private and not all(map(is_public, addresses)):
        raise ForbiddenError(
            f"The host '{host}' has a private address.",
            hint="An admin can allow private addresses with IMPORT_PRIVATE=true.",
        )
    return addresses[0]


def is_public(address: str) -> bool:
    """Return True for an address of the internet; False for private, local and reserved ones."""
    one = ipaddress.ip_address(address.partition("%")[0])
    if any(one in network for network in _EMBEDDING):
        return False
    mapped = getattr(one, "ipv4_mapped", None) or getattr(one, "sixtofour", None)
    if mapped is not None:
        return mapped.is_global and not mapped.is_multicast
    return one.is_global and not one.is_multicast


def name_document(url: str, content_type: str) -> str:
    """Name a document by the host and path of its URL, with an ending that fits its type."""
    parts = urlsplit(url)
    path = PurePosixPath(unquote(parts.path).strip("/"))
    path = path if path.name else path / "index"
    if not path.suffix:
        kind = content_type.partition(";")[0].strip().lower()
        path = path.with_name(path.name + (mimetypes.guess_extension(kind) or ".html"))
    return f"{parts.hostname}/{path}"
