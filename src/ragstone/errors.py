"""Define the error tree: every error has a message and a hint.

    RagstoneError              message, hint, retryable
    ├── SettingsError          a setting, file or flag is invalid; nothing was started
    ├── InputError             the question or request is invalid
    │   └── RefusedError       a moderator refused the question
    ├── UnauthorizedError      the API key is missing, unknown, expired or revoked
    ├── ForbiddenError         the API key does not allow this
    ├── LimitError             a limit was reached; retry after `retry_after_s`
    │   ├── TooManyRequestsError   the limit of one key or address
    │   ├── OverloadedError        the limit of the whole server
    │   └── DeadlineError          the time limit of a request
    ├── IngestError            one document could not be read
    ├── StoreError             the data directory, catalog or index cannot be used
    │   ├── MissingModelError  a model is not installed
    │   ├── StoreBusyError     another process is writing; try again
    │   ├── StoreDamagedError  stored data was changed or lost
    │   └── StoreUnavailableError  a database or index server does not answer; try again
    │       └── OriginalMissingError   a received file is not where this process looks
    ├── ProviderError          a model or service did not answer
    │   └── UnusableReplyError the reply does not have the requested form
    └── NotFoundError          nothing has that id

"No evidence" and "ungrounded" are answers, not errors.
"""

from __future__ import annotations


class RagstoneError(Exception):
    """Explain a failure: `message` says what happened, `hint` what to do about it.

    `retryable` is true if the same call may succeed later.

    Example:

        from ragstone import Engine, InputError, RagstoneError

        engine = Engine()
        try:
            engine.ask_sync("?")
        except InputError as error:
            print("invalid question:", error.message)
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
    """Report an invalid setting, preset, plug-in name or flag."""


class InputError(RagstoneError):
    """Report an invalid question or request, before any work is done."""


class RefusedError(InputError):
    """Report a question that a moderator refused; the message gives its reason."""


class UnauthorizedError(RagstoneError):
    """Report an API key that is missing, unknown, expired or revoked."""


class ForbiddenError(RagstoneError):
    """Report a valid API key that does not allow the request."""


class LimitError(RagstoneError):
    """Report a request over a limit; it may succeed after `retry_after_s`."""

    retryable = True

    def __init__(self, message: str, *, hint: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class TooManyRequestsError(LimitError):
    """Report a key or address that is over its rate limit."""


class OverloadedError(LimitError):
    """Report that all slots are in use and the queue is full."""


class DeadlineError(LimitError):
    """Report a request that was ended because it exceeded its time limit."""


class IngestError(RagstoneError):
    """Report one document that could not be read; the others continue."""


class StoreError(RagstoneError):
    """Report a data directory, catalog or index that cannot be used."""


class MissingModelError(StoreError):
    """Report a model that is not installed; message and hint can be logged."""


class StoreBusyError(StoreError):
    """Report that another process holds the writer lock."""

    retryable = True


class StoreDamagedError(StoreError):
    """Report stored data that was changed or lost, as opposed to a store that is away."""


class StoreUnavailableError(StoreError):
    """Report a database or index server that does not answer; it may after `retry_after_s`.

    `reason` may name hosts: it is for the operator, and not for clients of a server.
    """

    retryable = True
    retry_after_s = 2

    def __init__(self, message: str, *, hint: str = "", reason: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class OriginalMissingError(StoreUnavailableError):
    """Report a received file that this process does not find; another one may."""


class ProviderError(RagstoneError):
    """Report a model or external service that did not answer.

    `summary` and `reason` can be logged; `detail`, the service's own words, may quote a question.
    """

    retryable = True

    def __init__(
        self, message: str, *, hint: str = "", reason: str = "fault", detail: str = ""
    ) -> None:
        super().__init__(f"{message} It says: {detail}" if detail else message, hint=hint)
        self.summary, self.reason, self.detail = message, reason, detail


class UnusableReplyError(ProviderError):
    """Report a model's reply that does not have the requested form."""

    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, reason="unusable")


class NotFoundError(RagstoneError):
    """Report an id that no collection, document or query has."""
