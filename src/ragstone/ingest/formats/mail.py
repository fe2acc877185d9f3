"""Mail: one message (EML) as text with its attachments inside, and mailboxes of messages (MBOX)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from ragstone.blocks import Loaded, LoadOptions, Member
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, one_line
from ragstone.ingest.formats.html import parse_html, write_html

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_MESSAGE_START = re.compile(rb"(?:\A|(?<=\n))From [^\n]{3,200}\n(?=[A-Za-z-]{1,60}:)")


class MailLoader:
    """`.eml`: the headers people read, then the body; plain text is preferred to HTML."""

    media_type: ClassVar[str] = "message/rfc822"
    suffixes: ClassVar[tuple[str, ...]] = (".eml",)

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        message = _parse(content)
        composer = Composer()
        subject = _header(message, "Subject")
        composer.heading(1, subject or "(no subject)")
        shown = [f"{name}: {_header(message, name)}" for name in _SHOWN if _header(message, name)]
        composer.paragraph("\n".join(shown))
        for part in _bodies(message):
            _write_body(part, composer)
        return composer.loaded(self.media_type, _facts(message, subject))

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        """The attachments, and messages that were forwarded as attachments."""
        for number, part in enumerate(_attachments(_parse(content)), 1):
            name = one_line(part.get_filename() or "") or f"attachment-{number}"
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
    """`.mbox`: each message a document of its own."""

    media_type: ClassVar[str] = "application/mbox"
    suffixes: ClassVar[tuple[str, ...]] = (".mbox", ".mbx")

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        content = content.replace(b"\r\n", b"\n")
        starts = [match.start() for match in _MESSAGE_START.finditer(content)]
        for number, (start, end) in enumerate(
            zip(starts, [*starts[1:], len(content)], strict=True), 1
        ):
            body = content[start:end].partition(b"\n")[2]
            yield Member(f"{number:05d}.eml", re.sub(rb"(?m)^>(>*From )", rb"\1", body))


def _parse(content: bytes) -> EmailMessage:
    try:
        message = message_from_bytes(content, policy=policy.default)
    except (ValueError, LookupError, TypeError, IndexError, AttributeError) as error:
        # The standard library's header parser has let each of these through on broken mail.
        raise IngestError(
            f"The mail is damaged: {error}.", hint="Export it anew from its program."
        ) from error
    return message


def _header(message: EmailMessage, name: str) -> str:
    try:
        return one_line(str(message.get(name) or ""))
    except (ValueError, LookupError, TypeError, IndexError, AttributeError):
        return ""  # a header that cannot be decoded is left out


def _leaves(message: Any) -> Iterator[Any]:
    """The parts that are no containers; a forwarded message counts as one."""
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.get_payload():
            yield from _leaves(part)
    else:
        yield message


def _bodies(message: Any) -> list[Any]:
    texts = [part for part in _leaves(message) if _is_body(part)]
    plain = [part for part in texts if part.get_content_subtype() != "html"]
    return plain if any(_text(part).strip() for part in plain) else texts


def _attachments(message: Any) -> list[Any]:
    return [part for part in _leaves(message) if not _is_body(part)]


def _is_body(part: Any) -> bool:
    return bool(
        part.get_content_maintype() == "text" and part.get_content_disposition() != "attachment"
    )


def _text(part: Any) -> str:
    raw = part.get_payload(decode=True) or b""
    charset = part.get_content_charset() or "utf-8"
    try:
        return str(raw.decode(charset, errors="replace"))
    except LookupError:
        return str(raw.decode("utf-8", errors="replace"))


def _write_body(part: Any, composer: Composer) -> None:
    text = _text(part)
    if part.get_content_subtype() == "html":
        if text.strip():
            write_html(parse_html(text.encode()), composer, shift=1)
        return
    for paragraph in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        composer.paragraph(paragraph)


def _facts(message: EmailMessage, subject: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "title": subject, "author": _header(message, "From"), "to": _header(message, "To"),
    }  # fmt: skip
    with suppress(ValueError, TypeError, IndexError):
        facts["created"] = parsedate_to_datetime(_header(message, "Date")).isoformat()
    return facts
