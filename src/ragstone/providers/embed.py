"""Embed texts with a service over HTTP, in batches and with retries, or with a library here.

Tokens are counted with the shipped tokenizer: the services offer none, and chunks are far shorter
than their limits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import httpx
import numpy as np

from ragstone.errors import ProviderError, SettingsError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors
from ragstone.providers.http import extract_detail, hide_secrets, lacks_key, parse_object
from ragstone.providers.retry import (
    Failure,
    RetryPolicy,
    Service,
    explain_failure,
    explain_missing_key,
    explain_status,
)
from ragstone.settings import Settings


class EmbeddingWire(Protocol):
    """Speak the protocol of one service: its path, its request, and the vectors of its reply."""

    @property
    def service(self) -> Service: ...
    def path(self, model: str) -> str: ...
    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]: ...
    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        """Return one vector per text, in order; raise KeyError or ValueError for a bad reply."""
        ...


class _OwnVectors:
    """Share what all but the shipped embedder need: its tokenizer, and vectors of length 1.

    `waits` tells the pipeline to call them in a thread.
    """

    waits = True

    def __init__(self, name: str, max_tokens: int) -> None:
        self.name = name
        self.max_tokens = max_tokens
        self._shipped = OnnxEmbedder()

    @property
    def tokenizer_file(self) -> Path:
        return self._shipped.tokenizer_file

    def token_starts(self, text: str) -> Sequence[int]:
        return self._shipped.token_starts(text)

    @cached_property
    def dimension(self) -> int:
        return int(self._compute(["."]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = self._compute(texts)
        lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, np.where(lengths > 0, lengths, 1), dtype=np.float32)

    def _compute(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError


class RemoteEmbedder(_OwnVectors):
    """Embed with a service."""

    def __init__(
        self,
        wire: EmbeddingWire,
        *,
        name: str,
        model: str,
        url: str,
        headers: Mapping[str, str],
        max_tokens: int,
        dimension: int = 0,
        batch: int = 64,
        policy: RetryPolicy | None = None,
    ) -> None:
        super().__init__(f"{name}/{model}" + (f"/{dimension}" if dimension else ""), max_tokens)
        self._wire, self._model, self._wanted = wire, model, dimension
        self._url, self._headers, self._batch = url, dict(headers), batch
        self._policy = policy or RetryPolicy()
        self._opening = threading.Lock()

    @cached_property
    def dimension(self) -> int:
        """Return the dimension; if it is not set, ask the service once."""
        return self._wanted or len(self._embed_batch(["."])[0])

    def _compute(self, texts: Sequence[str]) -> Vectors:
        rows: list[list[float]] = []
        for begin in range(0, len(texts), self._batch):
            # Services refuse an empty text, but it needs a vector too.
            part = texts[begin : begin + self._batch]
            rows += self._embed_batch([text if text.strip() else "." for text in part])
        vectors = np.array(rows, dtype=np.float32)
        if vectors.shape[1] != self.dimension:
            raise ProviderError(
                f"{self._wire.service.title} sent vectors of {vectors.shape[1]} numbers, not "
                f"{self.dimension}.",
                hint="Check EMBEDDING_MODEL and EMBEDDING_DIMENSION.",
            )
        return vectors

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()
            del self.__dict__["_client"]

    @cached_property
    def _client(self) -> httpx.Client:
        with self._opening:
            return httpx.Client(
                base_url=self._url, headers=self._headers, timeout=self._policy.timeout_s
            )

    def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed one batch with retries; raise a ProviderError if all fail."""
        deadline = time.monotonic() + self._policy.timeout_s
        attempt = 0
        while True:
            found, failure = self._try_once(texts)
            if found is not None:
                return found
            pause = failure.retry_after_s
            pause = self._policy.pause_s(attempt) if pause is None else pause
            late = time.monotonic() + pause >= deadline
            if not failure.retryable or attempt == self._policy.max_retries or late:
                raise failure.as_error()
            time.sleep(pause)
            attempt += 1

    def _try_once(self, texts: Sequence[str]) -> tuple[list[list[float]] | None, Failure]:
        service = self._wire.service
        if lacks_key(self._url, self._headers):
            return None, explain_missing_key(service)
        try:
            body = self._wire.body(self._model, texts, self._wanted)
            reply = self._client.post(self._wire.path(self._model), json=body)
            if reply.status_code >= 400:
                after = reply.headers.get("retry-after")
                text = extract_detail(hide_secrets(reply.text, self._headers))
                return None, explain_status(
                    service, reply.status_code, after, text, model=self._model
                )
            rows = self._wire.vectors(parse_object(reply.text))
            if len(rows) != len(texts) or not all(rows):
                raise ValueError("the number of vectors and texts differs")
        except (KeyError, TypeError, ValueError) as error:
            return None, explain_failure(service, ValueError(str(error)))
        except httpx.HTTPError as error:
            return None, explain_failure(service, error)
        return rows, Failure("")


def build_remote(
    wire: EmbeddingWire,
    settings: Settings,
    *,
    name: str,
    model: str,
    url: str,
    headers: Mapping[str, str],
    max_tokens: int,
) -> RemoteEmbedder:
    """Build the embedder that speaks `wire`; `model` and `url` are the service's defaults."""
    chosen, calls = settings.embed, settings.provider
    return RemoteEmbedder(
        wire,
        name=name,
        model=chosen.model or model,
        url=chosen.base_url or url,
        headers=headers,
        max_tokens=max_tokens,
        dimension=chosen.dimension,
        batch=chosen.batch,
        policy=RetryPolicy(max_retries=calls.max_retries, timeout_s=calls.timeout_s),
    )


class LibraryEmbedder(_OwnVectors):
    """Run a model with a library; it is loaded at first use and called once at a time.

    `EMBEDDING_MODEL` is a folder, or the name of a model, which the library downloads if needed.
    """

    def __init__(
        self, name: str, load: Callable[[], Callable[[Sequence[str]], Any]], max_tokens: int
    ) -> None:
        super().__init__(name, max_tokens)
        self._load = load
        self._lock = threading.Lock()

    @cached_property
    def _run(self) -> Callable[[Sequence[str]], Any]:
        try:
            return self._load()
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"Cannot load the embedding model {self.name} ({type(error).__name__}).",
                hint="Set EMBEDDING_MODEL to a model that the library knows, or to its folder.",
            ) from error

    def _compute(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            return np.array(list(self._run(texts)), dtype=np.float32)
