"""A server that stands in for Pinecone: the requests of its REST API, as strictly as documented.

Written from the published API description 2025-10 (control plane: describe index; data plane:
upsert, query, fetch, list, delete, describe_index_stats) and the pages on limits, metadata filters
and data freshness; not compared with the service. An unknown field, a wrong type and everything
over a limit is a 400. Reads are late: a write is seen by queries, fetches and lists after `lag_s`,
by the statistics after twice that. Headers tell the log sequence numbers.
"""

# The fields are named as Pinecone names them.
# ruff: noqa: N815

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

API_VERSION = "2025-10"
MAX_REQUEST, MAX_METADATA, MAX_RESULT = 2 * 2**20, 40 * 2**10, 4 * 2**20


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


Id = Annotated[str, Field(min_length=1, max_length=512)]
Namespace = Annotated[str, Field(max_length=512, pattern=r"^[\x20-\x7e]*$")]


class SparseValues(Strict):
    indices: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1, max_length=1000)
    ]
    values: Annotated[list[float], Field(min_length=1, max_length=1000)]


class Vector(Strict):
    id: Id
    values: list[float] | None = None
    sparseValues: SparseValues | None = None
    metadata: dict[str, Any] | None = None


class Upsert(Strict):
    vectors: Annotated[list[Vector], Field(min_length=1, max_length=1000)]
    namespace: Namespace = ""


class Query(Strict):
    topK: Annotated[int, Field(ge=1, le=10_000)]
    namespace: Namespace = ""
    filter: dict[str, Any] | None = None
    includeValues: bool = False
    includeMetadata: bool = False
    vector: list[float] | None = None
    sparseVector: SparseValues | None = None
    id: Id | None = None


class Delete(Strict):
    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    deleteAll: bool = False
    namespace: Namespace = ""
    filter: dict[str, Any] | None = None


class Stats(Strict):
    filter: dict[str, Any] | None = None


class RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Pinecone:
    """One index: for each namespace its log of writes, (time, records to set or remove)."""

    dimension: int
    key: str = "right-key"
    name: str = "ragstone"
    metric: str = "dotproduct"
    lag_s: float = 0.1
    is_ready: bool = True
    statuses: list[int] = field(default_factory=list)
    """Statuses to send before anything is done."""
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    logs: dict[str, list[tuple[float, dict[str, Vector | None]]]] = field(default_factory=dict)
    url: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def records(self, namespace: str, lag_s: float) -> tuple[dict[str, Vector], int]:
        """What can be read now, and the number of the last write in it."""
        found: dict[str, Vector] = {}
        number, now = 0, time.monotonic()
        for number_, (at, changes) in enumerate(self.logs.get(namespace, ()), 1):
            if at + lag_s > now:
                break
            number = number_
            for name, record in changes.items():
                if record is None:
                    found.pop(name, None)
                else:
                    found[name] = record
        return found, number

    def append(self, namespace: str, changes: dict[str, Vector | None]) -> dict[str, str]:
        log = self.logs.setdefault(namespace, [])
        log.append((time.monotonic(), changes))
        return {"x-pinecone-request-lsn": str(len(log))}

    def describe(self, name: str) -> dict[str, Any]:
        if name != self.name:
            raise RefusedError(404, f"Resource {name} not found")
        state = "Ready" if self.is_ready else "Initializing"
        return {
            "name": self.name, "dimension": self.dimension, "metric": self.metric,
            "host": self.url.partition("://")[2], "vector_type": "dense",
            "deletion_protection": "disabled", "spec": {"serverless": {"cloud": "aws",
            "region": "us-east-1"}}, "status": {"ready": self.is_ready, "state": state},
        }  # fmt: skip

    def upsert(self, body: Upsert) -> tuple[dict[str, Any], dict[str, str]]:
        for one in body.vectors:
            check_record(one, self.dimension)
        changes: dict[str, Vector | None] = {one.id: one for one in body.vectors}
        return {"upsertedCount": len(body.vectors)}, self.append(body.namespace, changes)

    def query(self, body: Query) -> tuple[dict[str, Any], dict[str, str]]:
        if (body.vector is None) == (body.id is None):
            raise RefusedError(400, "Exactly one of 'vector' and 'id' must be given.")
        if body.vector is not None and len(body.vector) != self.dimension:
            raise RefusedError(
                400, f"Vector dimension {len(body.vector)} does not match {self.dimension}"
            )
        if body.sparseVector and self.metric != "dotproduct":
            raise RefusedError(
                400, f"Index configuration with metric {self.metric} does not support sparse"
            )
        if body.sparseVector:
            check_sparse(body.sparseVector)
        records, number = self.records(body.namespace, self.lag_s)
        vector, sparse = body.vector, body.sparseVector
        if body.id is not None:
            vector = records[body.id].values if body.id in records else None
        matches = [
            (score(vector, sparse, record), record)
            for record in records.values()
            if body.filter is None or is_match(body.filter, record.metadata or {})
        ]
        matches.sort(key=lambda one: -one[0])
        shown = [shape(record, values=body.includeValues, metadata=body.includeMetadata) |
                 {"score": value} for value, record in matches[: body.topK]]  # fmt: skip
        reply = {"matches": shown, "namespace": body.namespace, "usage": {"readUnits": 1}}
        if len(json.dumps(reply)) > MAX_RESULT:
            raise RefusedError(400, "Query result exceeds the limit of 4 MB")
        return reply, {"x-pinecone-max-indexed-lsn": str(number)}

    def fetch(self, params: list[tuple[str, str]]) -> tuple[dict[str, Any], dict[str, str]]:
        if {name for name, _ in params} - {"ids", "namespace"}:
            raise RefusedError(400, "Unknown query parameter")
        ids = [value for name, value in params if name == "ids"]
        if not 1 <= len(ids) <= 1000:
            raise RefusedError(400, "Between 1 and 1000 ids must be given")
        namespace = dict(params).get("namespace", "")
        records, number = self.records(namespace, self.lag_s)
        found = {one: shape(records[one], values=True, metadata=True) for one in ids
                 if one in records}  # fmt: skip
        reply = {"vectors": found, "namespace": namespace, "usage": {"readUnits": 1}}
        return reply, {"x-pinecone-max-indexed-lsn": str(number)}

    def list(self, params: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        limit = int(params.get("limit", 100))
        if (
            set(params) - {"prefix", "limit", "paginationToken", "namespace"}
            or not 1 <= limit <= 100
        ):
            raise RefusedError(400, "Invalid query parameter")
        records, _ = self.records(params.get("namespace", ""), self.lag_s)
        ids = sorted(one for one in records if one.startswith(params.get("prefix", "")))
        ids = [one for one in ids if one > params.get("paginationToken", "")]
        reply: dict[str, Any] = {"vectors": [{"id": one} for one in ids[:limit]]}
        if len(ids) > limit:
            reply["pagination"] = {"next": ids[limit - 1]}
        return reply | {"namespace": params.get("namespace", "")}, {}

    def delete(self, body: Delete) -> tuple[dict[str, Any], dict[str, str]]:
        if sum((body.ids is not None, body.deleteAll, body.filter is not None)) != 1:
            raise RefusedError(400, "Exactly one of 'ids', 'deleteAll' and 'filter' must be given.")
        if body.namespace not in self.logs:
            raise RefusedError(404, "Namespace not found")
        records, _ = self.records(body.namespace, 0.0)
        ids = body.ids if body.ids is not None else [
            name for name, record in records.items()
            if body.deleteAll or is_match(body.filter or {}, record.metadata or {})
        ]  # fmt: skip
        return {}, self.append(body.namespace, dict.fromkeys(ids))

    def stats(self, body: Stats) -> tuple[dict[str, Any], dict[str, str]]:
        if body.filter is not None:
            raise RefusedError(
                400, "Serverless indexes do not support describing stats with a filter"
            )
        counts = {name: len(self.records(name, 2 * self.lag_s)[0]) for name in self.logs}
        return {
            "namespaces": {name: {"vectorCount": count} for name, count in counts.items() if count},
            "dimension": self.dimension, "indexFullness": 0, "metric": self.metric,
            "totalVectorCount": sum(counts.values()), "vectorType": "dense",
        }, {}  # fmt: skip

    def answer(
        self, method: str, address: str, headers: Any, content: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        """Return the status, the body and the headers of the reply to a request."""
        if headers.get("api-key") != self.key:
            return 401, "Unauthorized", {}
        if self.statuses:
            status = self.statuses.pop(0)
            return status, {"code": 14, "message": "told to fail", "details": []}, {}
        try:
            if headers.get("x-pinecone-api-version") != API_VERSION:
                raise RefusedError(400, "Missing or unknown X-Pinecone-Api-Version")
            if len(content) > MAX_REQUEST:
                raise RefusedError(400, "Error, message length too large: limit is 2097152 bytes")
            with self.lock:
                return 200, *self.route(method, urlsplit(address), content)
        except RefusedError as refusal:
            return refusal.status, {"code": 3, "message": str(refusal), "details": []}, {}
        except (ValidationError, ValueError) as error:
            return 400, {"code": 3, "message": str(error).replace("\n", " "), "details": []}, {}

    def route(self, method: str, url: Any, content: bytes) -> tuple[Any, dict[str, str]]:
        params = parse_qsl(url.query, keep_blank_values=True)
        if method == "GET" and (found := re.fullmatch(r"/indexes/([a-z0-9-]+)", url.path)):
            return self.describe(found[1]), {}
        if method == "GET" and url.path == "/vectors/fetch":
            return self.fetch(params)
        if method == "GET" and url.path == "/vectors/list":
            return self.list(dict(params))
        posts = {"/vectors/upsert": (Upsert, self.upsert), "/query": (Query, self.query),
                 "/vectors/delete": (Delete, self.delete),
                 "/describe_index_stats": (Stats, self.stats)}  # fmt: skip
        if method != "POST" or url.path not in posts:
            raise RefusedError(404, f"Not found: {method} {url.path}")
        model, handle = posts[url.path]
        self.seen.append((url.path, json.loads(content)))
        answered: tuple[Any, dict[str, str]] = handle(model.model_validate_json(content))  # type: ignore[operator]
        return answered


def check_record(record: Vector, dimension: int) -> None:
    if record.values is None or len(record.values) != dimension:
        raise RefusedError(
            400, f"Vector dimension does not match the dimension {dimension} of the index"
        )
    if not any(record.values):
        raise RefusedError(400, "Dense vectors must contain at least one non-zero value")
    if record.sparseValues is not None:
        check_sparse(record.sparseValues)
    for name, value in (record.metadata or {}).items():
        is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if name.startswith("$") or not (is_list or isinstance(value, str | int | float)):
            raise RefusedError(
                400,
                "Metadata value must be a string, number, boolean or list of strings, got "
                f"{value!r} for field '{name}'",
            )
    if len(json.dumps(record.metadata or {})) > MAX_METADATA:
        raise RefusedError(400, "Metadata size exceeds the limit of 40960 bytes per vector")


def check_sparse(sparse: SparseValues) -> None:
    if len(sparse.indices) != len(sparse.values):
        raise RefusedError(400, "Sparse vector indices and values must have the same length")
    if len(set(sparse.indices)) != len(sparse.indices):
        raise RefusedError(400, "Sparse vector must not contain duplicate indices")


def score(vector: list[float] | None, sparse: SparseValues | None, record: Vector) -> float:
    total = sum(a * b for a, b in zip(vector or (), record.values or (), strict=False))
    if sparse is not None and record.sparseValues is not None:
        own = dict(zip(record.sparseValues.indices, record.sparseValues.values, strict=True))
        pairs = zip(sparse.indices, sparse.values, strict=True)
        total += sum(value * own.get(index, 0.0) for index, value in pairs)
    return total


def shape(record: Vector, *, values: bool, metadata: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": record.id, "values": record.values if values else []}
    if values and record.sparseValues is not None:
        shown["sparseValues"] = record.sparseValues.model_dump()
    if metadata and record.metadata:
        # Every number comes back as a 64-bit float.
        shown["metadata"] = {
            name: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for name, value in record.metadata.items()
        }
    return shown


NUMBER = {"$gt": lambda a, b: a > b, "$gte": lambda a, b: a >= b,
          "$lt": lambda a, b: a < b, "$lte": lambda a, b: a <= b}  # fmt: skip


def is_match(part: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Evaluate a filter; anything that the documentation does not have is refused."""
    if not isinstance(part, dict) or not part:
        raise RefusedError(400, "A filter must be a non-empty object")
    # Every part is evaluated, so that every fault is found.
    found = [is_match_of(name, value, metadata) for name, value in part.items()]
    return all(found)


def is_match_of(name: str, value: Any, metadata: dict[str, Any]) -> bool:
    if name in ("$and", "$or"):
        if not isinstance(value, list) or not value:
            raise RefusedError(400, f"{name} must be a non-empty list")
        found = [is_match(one, metadata) for one in value]
        return all(found) if name == "$and" else any(found)
    if name.startswith("$"):
        raise RefusedError(400, f"Unknown operator {name} at the top level")
    conditions = value if isinstance(value, dict) else {"$eq": value}
    if not conditions:
        raise RefusedError(400, f"No condition on '{name}'")
    held = metadata.get(name)
    found = [compare(name, sign, held, wanted) for sign, wanted in conditions.items()]
    return all(found)


def compare(name: str, sign: str, held: Any, wanted: Any) -> bool:
    members = held if isinstance(held, list) else [] if held is None else [held]
    if sign in ("$eq", "$ne"):
        if not isinstance(wanted, str | int | float):
            raise RefusedError(400, f"{sign} on '{name}' needs a string, number or boolean")
        return (wanted in members) is (sign == "$eq")
    if sign in ("$in", "$nin"):
        if not isinstance(wanted, list) or not 1 <= len(wanted) <= 10_000:
            raise RefusedError(400, f"{sign} on '{name}' needs a list of 1 to 10,000 values")
        return any(one in members for one in wanted) is (sign == "$in")
    if sign == "$exists":
        if not isinstance(wanted, bool):
            raise RefusedError(400, f"$exists on '{name}' needs a boolean")
        return (held is not None) is wanted
    if sign not in NUMBER or isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise RefusedError(400, f"Invalid operator {sign} or operand on '{name}'")
    return isinstance(held, int | float) and NUMBER[sign](held, wanted)


class running_pinecone:  # noqa: N801  it reads like a function
    """Serve a stand-in on a free port until the block ends."""

    def __init__(self, state: Pinecone) -> None:
        self.state = state

    def __enter__(self) -> Pinecone:
        state = self.state

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                status, body, headers = state.answer(self.command, self.path, self.headers, content)
                told = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(told))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(told)

            do_GET = do_POST = reply

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        state.url = f"http://127.0.0.1:{self._server.server_port}"
        return state

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
