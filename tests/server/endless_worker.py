"""A worker that computes for ever if it is told to, and otherwise names its process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ragstone.processes import answer_requests, pack_message


def answer(message: dict[str, Any]) -> Iterator[bytes]:
    while message["endless"]:
        pass
    if message.get("error") == "unexpected":
        raise ValueError
    if message.get("error"):
        yield pack_message({"error": {"message": message["error"], "hint": "Install it again."}})
        return
    yield pack_message({"pid": os.getpid(), "timeout_s": message["timeout_s"]})


if __name__ == "__main__":
    answer_requests(answer, lambda: None)
