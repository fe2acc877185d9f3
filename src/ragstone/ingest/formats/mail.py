"""Load mail: one message (EML) with its attachments, and mailboxes of messages (MBOX)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from ragstone.blocks import LoadedDocument, LoadOptions, Member
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, join_lines
from ragstone.ingest.formats.html import parse_html, write_html

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MESSAGE_START = re.compile(rb"(?:\A|(?<=\n))From [^\n]{3,200}\n(?=[A-Za-z-]{1,60}:)")
# The header parser of the standard library raises each of these on broken mail.
_HEADER_ERRORS = (ValueError, LookupError, TypeError, IndexError, AttributeError)


class MailLoader:
    """Load `.eml`: the main headers, then the body; plain text is preferred to HTML."""

    media_type: ClassVar[str] = "message/rfc822"
    suffixes: ClassVar[tuple[str, ...]] = (".eml",)

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        message = _parse_message(content)
        headers = {name: _read_header(message, name) for name in _HEADERS}
        composer = Composer()
        composer.add_heading(1, headers["Subject"] or "(no subject)")
        lines = (f"{name}: {value}" for name, value in headers.items() if value)
        composer.add_paragraph("\n".join(lines))
        for part in _find_bodies(message):
            _write_body(part, composer)
        metadata = {"title": headers["Subject"], "author": headers["From"], "to": headers["To"]}
        with suppress(ValueError, TypeError, IndexError):
            metadata["created"] = parsedate_to_datetime(headers["Date"]).isoformat()
        return composer.finish(self.media_type, metadata)

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        """Yield the attachments, forwarded messages among them."""
        attachments = (p for p in _find_leaves(_parse_message(content)) if not _is_body(p))
        for number, part in enumerate(attachments, 1):
            name = join_lines(part.get_filename() or "") or f"attachment-{number}"
            if part.get_content_maintype() == "message":
                inner = part.get_payload()
                payload = inner[0].as_bytes() if isinstance(inner, list) and inner else b""
                name = name if name.endswith(".eml") else f"{name}.eml"
            else:
                raw = part.get_payload(decode=True)
                payload = raw if isinstance(raw, bytes) else b""
            if payload:
                yield Member(name, payload)


class MailboxUnpacker:
    """Unpack `.mbox`: each message is a document of its own."""

    media_type: ClassVar[str] = "application/mbox"
    suffixes: ClassVar[tuple[str, ...]] = (".mbox", ".mbx")

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        content = content.replace(b"\r\n", b"\n")
        starts = [match.start() for match in _MESSAGE_START.finditer(content)]
        ends = [*starts[1:], len(content)]
        for number, (start, end) in enumerate(zip(starts, ends, strict=False), 1):
            body = content[start:end].partition(b"\n")[2]
            yield Member(f"{number:05d}.eml", re.sub(rb"(?m)^>(>*From )", rb"\1", body))


def _parse_message(content: bytes) -> EmailMessage:
    try:
        return message_from_bytes(content, policy=policy.default)
    except _HEADER_ERRORS as error:
        raise IngestError(
            f"The mail is damaged: {error}.", hint="Export it again from its program."
        ) from error


def _read_header(message: EmailMessage, name: str) -> str:
    try:
        return join_lines(str(message.get(name) or ""))
    except _HEADER_ERRORS:
        return ""  # a header that cannot be decoded is left out


def _find_leaves(message: Any) -> Iterator[Any]:
    """Yield the parts that are not containers; a forwarded message counts as one part."""
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.get_payload():
            yield from _find_leaves(part)
    else:
        yield message


def _find_bodies(message: Any) -> list[Any]:
    texts = [part for part in _find_leaves(message) if _is_body(part)]
    plain = [part for part in texts if part.get_content_subtype() != "html"]
    return plain if any(_read_text(part).strip() for part in plain) else texts


def _is_body(part: Any) -> bool:
    return bool(
        part.get_content_maintype() == "text" and part.get_content_disposition() != "attachment"
    )


def _read_text(part: Any) -> str:
    raw = part.get_payload(decode=True) or b""
    try:
        return str(raw.decode(part.get_content_charset() or "utf-8", errors="replace"))
    except LookupError:
        return str(raw.decode("utf-8", errors="replace"))


def _write_body(part: Any, composer: Composer) -> None:
    text = _read_text(part)
    if part.get_content_subtype() == "html":
        if text.strip():
            write_html(parse_html(text.encode()), composer, shift=1)
        return
    for paragraph in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        composer.add_paragraph(paragraph)
