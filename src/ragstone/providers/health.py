"""Remember whether a provider answers: `unknown` until it was asked, then `ok` or `failing`."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ragstone.errors import RagstoneError
from ragstone.providers.retry import ABOUT_ONE_REQUEST

HealthState: TypeAlias = Literal["unknown", "ok", "failing"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Say how the last call went. `detail`, the words of the service, is for the operator alone."""

    state: HealthState = "unknown"
    reason: str = ""
    message: str = ""
    hint: str = ""
    detail: str = ""
    checked_at: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what everybody may see."""
        return {
            "state": self.state,
            "reason": self.reason,
            "message": self.message,
            "hint": self.hint,
            "checked_at": self.checked_at,
        }


class ProviderHealth:
    """Hold the outcome of the last call. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._report = HealthReport()

    @property
    def report(self) -> HealthReport:
        with self._lock:
            return self._report

    def record_success(self) -> None:
        self._set(HealthReport("ok", checked_at=time.time()))

    def record_failure(self, error: Exception, *, is_probe: bool = False) -> None:
        """Record a failure, unless it is about one request and not about the provider.

        What is wrong with the request of a probe is wrong with every other.
        """
        reason = getattr(error, "reason", "fault")
        if reason in ABOUT_ONE_REQUEST and not is_probe:
            return
        message = getattr(error, "summary", f"The call failed ({type(error).__name__}).")
        hint = error.hint if isinstance(error, RagstoneError) else ""
        detail = str(getattr(error, "detail", ""))
        self._set(HealthReport("failing", reason, message, hint, detail, time.time()))

    def _set(self, report: HealthReport) -> None:
        with self._lock:
            self._report = report
