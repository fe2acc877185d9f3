"""The error tree: every failure a person can meet, as a sentence with a hint.

    RagstoneError              message, hint, retryable
    ├── SettingsError          a value, file or flag is wrong; nothing was started
    ├── InputError             the question or request itself cannot be used
    │   └── RefusedError       a moderator will not have it
    ├── UnauthorizedError      no key, or one that opens nothing
    ├── ForbiddenError         a key that does not open this
    ├── LimitError             too much at once; `retry_after_s` says when to come back
    │   ├── TooManyRequestsError   from this key or address
    │   ├── OverloadedError        from everybody together
    │   └── DeadlineError          it took too long
    ├── IngestError            one document could not be read
    ├── StoreError             the data directory, catalog or index cannot be used
    │   └── StoreBusyError     another process is writing; try again
    ├── ProviderError          a model or service did not answer
    │   └── UnusableReplyError it answered, but not in the form that was asked for
    └── NotFoundError          nothing has that id

"No evidence" and "ungrounded" are answers, not errors.
"""

from __future__ import annotations


class RagstoneError(Exception):
    """A failure that is explained: `message` says what happened, `hint` what to do about it.

    `retryable` is true where the same call may succeed later.

    Example:

        from ragstone import Engine, InputError, RagstoneError

        engine = Engine()
        try:
            engine.ask_sync("?")
        except InputError as error:
            print("cannot be asked:", error.message)
        except RagstoneError as error:
            print(error.message, error.hint, error.retryable)
        engine.close()
    """

    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SettingsError(RagstoneError):
    """A setting, preset, plug-in name or flag that cannot be used."""


class InputError(RagstoneError):
    """A question or request that is refused before any work is done."""


class RefusedError(InputError):
    """A question that a moderator refuses; the message gives its reason."""


class UnauthorizedError(RagstoneError):
    """No key was sent, or it is unknown, expired or revoked."""


class ForbiddenError(RagstoneError):
    """A key that is good, but not for this."""


class LimitError(RagstoneError):
    """A request that could be served at another time."""

    retryable = True

    def __init__(self, message: str, *, hint: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class TooManyRequestsError(LimitError):
    """One key or address asks for more than its share."""


class OverloadedError(LimitError):
    """Everything that may run at once is running, and the queue is full."""


class DeadlineError(LimitError):
    """A request that took longer than allowed and was ended."""


class IngestError(RagstoneError):
    """One document that could not be read; the others go on."""


class StoreError(RagstoneError):
    """The data directory, the catalog or the index cannot be used."""


class StoreBusyError(StoreError):
    """Another process holds the writer's place."""

    retryable = True


class ProviderError(RagstoneError):
    """A model or outside service that did not answer."""

    retryable = True


class UnusableReplyError(ProviderError):
    """A model that answered, but not with what it was asked for."""

    retryable = False


class NotFoundError(RagstoneError):
    """No collection, document or query has that id."""
