"""Run as a process that checks answers against facts: requests in, groundings out.

A text can make a check long, and a thread cannot be stopped. This process can: `server/work.py`
ends it at its deadline. It also ends itself after so much time of the processor, in case its
owner is gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ragstone import system
from ragstone.errors import StoreError
from ragstone.processes import answer_requests, pack_message
from ragstone.query.check.review import check_against_facts
from ragstone.query.check.verifier import WorkLimit, load_verifier
from ragstone.types import Claim, Grounding

# The check ends by itself, with the claims it has, before its owner ends it.
_OWN_SHARE = 0.8
# The least urgent work of a server: an answer that somebody waits for comes first.
_NICENESS = 14


def main() -> None:
    answer_requests(answer, prepare)


def prepare() -> None:
    system.lower_process_priority(_NICENESS)
    if verifier := load_verifier():
        verifier.verify("It is loaded", "before the first text is checked.", WorkLimit())


def answer(message: Mapping[str, Any]) -> Iterator[bytes]:
    timeout_s = float(message["timeout_s"])
    system.limit_processor_time(timeout_s)
    try:
        grounding = check_against_facts(
            message["answer"],
            message["facts"],
            threshold=message["threshold"],
            limit=WorkLimit.of_seconds(_OWN_SHARE * timeout_s),
        )
    except StoreError as error:  # a damaged model; without a message it would look like a crash
        yield pack_message({"error": {"message": error.message, "hint": error.hint}})
    else:
        yield pack_message(dataclasses.asdict(grounding))


def unpack_grounding(message: Mapping[str, Any]) -> Grounding:
    """Read what a process has found, in its owner."""
    claims = [
        Claim(**{**row, "citations": tuple(row["citations"]), "reasons": tuple(row["reasons"])})
        for row in message["claims"]
    ]
    lists = (message[name] for name in ("cited_facts", "notes", "unknown_sources"))
    return Grounding(message["support_score"], tuple(claims), *map(tuple, lists))


if __name__ == "__main__":
    main()
