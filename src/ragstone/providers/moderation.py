"""Judge questions and answers with OpenAI's moderation endpoint: text → None, or a reason.

It speaks of more than a document engine must stop (every depiction of violence, for example), so
only the categories of `moderate.categories` count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ragstone.plugins import PartContext
from ragstone.protocols import Moderated
from ragstone.providers.http import Endpoint, parse_object
from ragstone.providers.openai import DEFAULT_URL, SERVICE, build_headers
from ragstone.providers.retry import Failure, Pieces, RetryPolicy, stream_with_retries

_SERVICE = replace(SERVICE, title="The moderation service", prefix="RAGSTONE_MODERATE")
_REASONS: Mapping[str, str] = {
    "harassment": "It harasses people.",
    "hate": "It is hateful.",
    "illicit": "It asks for help to do something illegal.",
    "self-harm": "It is about harming yourself. Please talk to somebody now: call your local "
    "emergency number, or find a helpline for your country at findahelpline.com.",
    "sexual": "It is sexual.",
    "sexual/minors": "It asks for sexual content about minors.",
    "violence": "It is violent.",
}


@dataclass(frozen=True, slots=True)
class OpenAIModerator:
    """Ask `POST /moderations`, and refuse what it flags in one of `categories`."""

    endpoint: Endpoint
    model: str
    categories: tuple[str, ...]
    policy: RetryPolicy
    name: str = "openai"

    async def objection(self, kind: Moderated, text: str) -> str | None:
        if not text.strip():
            return None  # the service refuses an empty input
        received = ""
        async for piece in stream_with_retries(
            self.endpoint.service, lambda: self._send(text), self._explain, self.policy
        ):
            received += piece if isinstance(piece, str) else ""
        flagged = json.loads(received)
        chosen = next((one for one in self.categories if flagged.get(one)), None)
        if chosen is None:
            return None
        family = chosen.partition("/")[0]
        return _REASONS.get(chosen) or _REASONS.get(family) or "It was flagged as harmful."

    async def aclose(self) -> None:
        await self.endpoint.aclose()

    async def _send(self, text: str) -> Pieces:
        """Yield the categories of a text as one piece of JSON, so that all retries are shared."""
        body = {"model": self.model, "input": text}
        lines = [line async for line in self.endpoint.stream_lines("moderations", body)]
        results = parse_object("\n".join(lines)).get("results")
        if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
            raise ValueError("no results")
        # A long text may be judged in several parts.
        categories = [one.get("categories") for one in results]
        if not categories or not all(isinstance(one, dict) for one in categories):
            raise ValueError("no categories")
        names = {name for one in categories for name, is_flagged in one.items() if is_flagged}
        yield json.dumps(dict.fromkeys(sorted(names), True))

    def _explain(self, error: Exception) -> Failure | None:
        return self.endpoint.explain(error, self.model)


def build(context: PartContext) -> OpenAIModerator:
    """Build the moderator; without an address of its own it uses that of `OPENAI_*`, whose key it
    has, so that a key never goes to another server than its own."""
    options, openai = context.settings.moderate, context.settings.openai
    key = options.api_key.get_secret_value() or openai.key
    url = options.base_url or openai.base_url or DEFAULT_URL
    calls = context.settings.provider
    return OpenAIModerator(
        Endpoint(_SERVICE, url, build_headers(key)),
        options.model,
        options.categories,
        RetryPolicy(max_retries=calls.max_retries, timeout_s=options.timeout_s),
    )
