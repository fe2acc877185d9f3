"""Office files under a password: opened where one is given and the extra is installed."""

from __future__ import annotations

import io

from ragstone.errors import IngestError


def opened(content: bytes, password: str | None) -> bytes:
    """The package inside an encrypted Office file."""
    if not password:
        raise IngestError(
            "The file is encrypted and needs a password.", hint="Give it with --password."
        )
    try:
        import msoffcrypto
        from msoffcrypto.exceptions import DecryptionError, InvalidKeyError
    except ImportError as error:
        raise IngestError(
            "The file is encrypted, and what opens it is not installed.",
            hint="Install it with: pip install 'ragstone[encrypted]'",
        ) from error
    package = io.BytesIO()
    try:
        file = msoffcrypto.OfficeFile(io.BytesIO(content))
        file.load_key(password=password)
        file.decrypt(package)
    except (InvalidKeyError, DecryptionError) as error:
        raise IngestError(
            "The file is encrypted and the password given does not open it.",
            hint="Give the right one with --password.",
        ) from error
    return package.getvalue()
