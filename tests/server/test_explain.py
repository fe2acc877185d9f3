"""`GET /v1/queries/{id}/explain` over HTTP."""

from __future__ import annotations

import httpx


def test_a_past_query_is_explained_chunk_by_chunk(client: httpx.Client) -> None:
    answer = client.post("/v1/query", json={"query": "When does the dome open?"}).json()
    address = f"/v1/queries/{answer['query_id']}/explain"
    whole = client.get(address).json()
    assert [stage["stage"] for stage in whole["stages"]][:3] == [
        "retrieve.semantic",
        "retrieve.keyword",
        "fuse",
    ]
    used = answer["used_chunks"][0]["chunk_id"]
    assert used in whole["ids"].values()
    one = client.get(address, params={"chunk_id": used}).json()
    assert one["verdict"] == "Read for the answer, as source 1."
    assert one["steps"][-1]["stage"] == "ground.context"


def test_an_unknown_query_or_chunk_is_a_404(client: httpx.Client) -> None:
    assert client.get("/v1/queries/nothing/explain").status_code == 404
    answer = client.post("/v1/query", json={"query": "When does the dome open?"}).json()
    address = f"/v1/queries/{answer['query_id']}/explain"
    assert client.get(address, params={"chunk_id": "no:1"}).status_code == 404
