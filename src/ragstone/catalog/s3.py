"""Store original files in a bucket of an object store with the S3 API, under their SHA-256.

The five calls that are needed (put, get, delete, list, and the signature of version 4) are written
here over httpx: the SDK of the vendor is a hundred times as large and has a client of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import httpx
from lxml import etree

from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.settings.services import OriginalsSettings

log = logging.getLogger(__name__)

_EMPTY_SHA256 = hashlib.sha256().hexdigest()
_CONNECT_TIMEOUT_S = 1.5
_TRIES = 3
_FIRST_PAUSE_S = 0.2
_COPY_BYTES = 1 << 20
# A file that was fetched is read within this time; then its copy is deleted.
_COPY_AGE_S = 24 * 3600.0
# Codes of a 404 that say that there is no such object; any other is a wrong address.
_MISSING = {"GET": ("NoSuchKey",), "DELETE": ("NoSuchKey", "")}


class S3Store:
    """Implement `FileStore` on a bucket; files that are read are copied to a local folder."""

    is_local = False

    def __init__(self, options: OriginalsSettings, copies: Path) -> None:
        self._options = options
        self._copies = copies
        endpoint = options.endpoint or f"https://s3.{options.region}.amazonaws.com"
        self._url = f"{endpoint.rstrip('/')}/{options.bucket}"
        timeout = httpx.Timeout(options.timeout_s, connect=_CONNECT_TIMEOUT_S)
        self._client = httpx.Client(timeout=timeout, trust_env=False)

    def put(self, files: Mapping[str, Path]) -> None:
        """Store files by their hashes; the store has them on its disks when this returns."""
        for sha256, file in files.items():
            size = str(file.stat().st_size)
            headers = {"content-length": size, "content-type": "application/octet-stream"}
            # The hash is a part of the signature: the store refuses other bytes.
            with self._send("PUT", self._key(sha256), headers, sha256, file):
                pass
            file.unlink()

    def find(self, sha256: str) -> Path | None:
        """Return a local copy of a file, or None if the store does not have it."""
        copy = self._copies / sha256
        with suppress(FileNotFoundError):
            os.utime(copy)
            return copy
        self._copies.mkdir(parents=True, exist_ok=True)
        temporary = self._copies / f".{uuid.uuid4().hex}"
        try:
            with self._send("GET", self._key(sha256)) as reply:
                if reply.status_code == 404:
                    return None
                digest = hashlib.sha256()
                with temporary.open("wb") as target:
                    for part in reply.iter_bytes(_COPY_BYTES):
                        digest.update(part)
                        target.write(part)
            if digest.hexdigest() != sha256:
                raise StoreError(
                    f"The original {sha256} in the object store is damaged.",
                    hint="Upload the document again: ragstone doctor --deep names it.",
                )
            temporary.replace(copy)
        finally:
            temporary.unlink(missing_ok=True)
        return copy

    def remove(self, sha256: str) -> None:
        with self._send("DELETE", self._key(sha256)):
            (self._copies / sha256).unlink(missing_ok=True)

    def list_hashes(self) -> Iterator[str]:
        """Yield the hash of every stored file, by its name."""
        token = ""
        while True:
            prefix = quote(self._options.folder, safe="-_.~")
            query = f"list-type=2&prefix={prefix}"
            if token:
                query = f"continuation-token={quote(token, safe='-_.~')}&{query}"
            with self._send("GET", "", query=query) as reply:
                listing = _parse_xml(reply.read())
            for key in listing.iterfind(".//{*}Contents/{*}Key"):
                name = (key.text or "").rpartition("/")[2]
                if len(name) == 64:
                    yield name
            token = listing.findtext("{*}NextContinuationToken") or ""
            if not token:
                return

    def delete_old_copies(self) -> None:
        """Delete the local copies that were not used for a day."""
        oldest = time.time() - _COPY_AGE_S
        for copy in self._copies.glob("*"):
            with suppress(FileNotFoundError):
                if copy.stat().st_mtime < oldest:
                    copy.unlink()

    def close(self) -> None:
        self._client.close()

    def _key(self, sha256: str) -> str:
        return f"/{self._options.folder}{sha256[:2]}/{sha256}"

    @contextmanager
    def _send(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        payload_sha256: str = _EMPTY_SHA256,
        file: Path | None = None,
        *,
        query: str = "",
    ) -> Iterator[httpx.Response]:
        """Send a signed request, and retry it where that may help; allow 404 for a file."""
        url = f"{self._url}{key}" + (f"?{query}" if query else "")
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_FIRST_PAUSE_S * 4 ** (attempt - 1))
            is_last = attempt == _TRIES - 1
            try:
                request = self._client.build_request(
                    method,
                    url,
                    content=_read_parts(file) if file else None,
                    headers={
                        **(headers or {}),
                        **sign_request(method, url, payload_sha256, self._options, _now()),
                    },
                )
                reply = self._client.send(request, stream=True)
            except httpx.TimeoutException as error:
                raise _make_unavailable(error) from error  # the next try would wait as long
            except httpx.TransportError as error:
                if is_last:
                    raise _make_unavailable(error) from error
                continue
            try:
                if reply.status_code >= 500 and not is_last:
                    continue
                try:
                    _refuse_failure(reply, may_be_missing=_MISSING.get(method, ()) if key else ())
                    yield reply
                except httpx.TransportError as error:  # in the middle of the body
                    raise _make_unavailable(error) from error
                return
            finally:
                reply.close()


def sign_request(
    method: str, url: str, payload_sha256: str, options: OriginalsSettings, now: datetime
) -> dict[str, str]:
    """Return the headers that sign a request (AWS Signature Version 4)."""
    parts = httpx.URL(url)
    host, path, query = (one.decode() for one in (parts.netloc, parts.raw_path, parts.query))
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    signed = {"host": host, "x-amz-content-sha256": payload_sha256, "x-amz-date": stamp}
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    canonical = "\n".join([method, path.partition("?")[0], query, lines, names, payload_sha256])
    scope = f"{day}/{options.region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    key = b"AWS4" + options.secret_key.get_secret_value().encode()
    for part in (day, options.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    credential = f"{options.access_key.get_secret_value()}/{scope}"
    del signed["host"]  # httpx sends it by itself
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={signature}"
    )
    return signed


def _now() -> datetime:
    return datetime.now(UTC)


def _read_parts(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        while part := content.read(_COPY_BYTES):
            yield part


def _parse_xml(content: bytes) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise StoreError(
            "The object store of the originals sent a reply that is not XML.",
            hint="Check RAGSTONE_ORIGINALS_ENDPOINT: it must be the S3 API of the store.",
        ) from error


def _refuse_failure(reply: httpx.Response, *, may_be_missing: tuple[str, ...]) -> None:
    """Raise an error for a failed request, without the host, the bucket or a key.

    `may_be_missing` are the codes that say that there is no such object.
    """
    status = reply.status_code
    if status < 300:
        return
    text = reply.read()[:10_000].decode("utf-8", "replace")
    code = text.partition("<Code>")[2].partition("</Code>")[0]
    if status == 404 and code in may_be_missing:
        return
    log.warning("the object store answered %d %s", status, code)
    if status >= 500:
        raise _make_unavailable(None)
    hint = "Check the settings of [originals] and the log."
    message = f"The object store of the originals refused a request ({code or status})."
    if code == "NoSuchBucket":
        message = "The bucket of the originals does not exist in the object store."
        hint = "Create it, or correct RAGSTONE_ORIGINALS_BUCKET."
    elif code == "RequestTimeTooSkewed":
        hint = "Set the clock of this machine: it is more than 15 minutes wrong."
    elif status in {401, 403}:
        hint = "Check RAGSTONE_ORIGINALS_ACCESS_KEY, RAGSTONE_ORIGINALS_SECRET_KEY, and its rights."
    raise StoreError(message, hint=hint)


def _make_unavailable(error: Exception | None) -> StoreUnavailableError:
    log.warning("the object store does not answer: %s", type(error).__name__)
    return StoreUnavailableError(
        "The object store of the originals does not answer.",
        hint="Try again in a moment. If it stays so, check that it runs and "
        "RAGSTONE_ORIGINALS_ENDPOINT; the log has the reason.",
    )
