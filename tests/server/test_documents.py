"""The doors of documents, over real HTTP against a running application."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve


@pytest.fixture
async def client(tmp_path: Path, embedder: OnnxEmbedder) -> AsyncIterator[httpx.AsyncClient]:
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    engine.close()


def spool_of(tmp_path: Path) -> list[Path]:
    """Files and notes in the folders of processes; their locks beside them do not count."""
    return list((tmp_path / "data" / "spool").glob("*/*"))


async def test_a_chat_upload_replies_with_exactly_what_was_agreed(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    reply = await client.post(
        "/chat/42/documents",
        files=[
            ("files", ("good.txt", b"The gate code is 8812.")),
            ("files", ("bad.pdf", b"%PDF-1.7 broken")),
        ],
    )
    assert reply.status_code == 200
    body = reply.json()
    assert set(body) == {"uploaded", "failed"}
    (good,) = body["uploaded"]
    assert set(good) == {"id", "name", "chunk_count"}
    assert (good["name"], good["chunk_count"]) == ("good.txt", 1)
    assert body["failed"] == [
        {"name": "bad.pdf", "error": "The PDF is damaged and cannot be opened."}
    ]
    found = await client.post(
        "/v1/query", json={"query": "What is the gate code?", "collection": "chat_42"}
    )
    assert "8812" in found.json()["answer"]
    assert spool_of(tmp_path) == []


async def test_files_go_in_and_come_back_as_they_were(client: httpx.AsyncClient) -> None:
    content = b"# Rules\n\nThe door is green.\n"
    reply = await client.post(
        "/v1/documents",
        files={"files": ("../../rules.md", content)},
        data={"collection": "house", "tags": "home, rules", "metadata": '{"year": 2026}'},
    )
    assert reply.status_code == 201
    (document,) = reply.json()["documents"]
    assert (document["name"], document["outcome"]) == ("rules.md", "added")
    whole = (await client.get(f"/v1/documents/{document['id']}")).json()
    assert whole["text"] == content.decode()
    assert whole["metadata"]["tags"] == ["home", "rules"]
    assert whole["metadata"]["year"] == 2026
    assert whole["upload_id"] == reply.json()["upload_id"]
    original = await client.get(f"/v1/documents/{document['id']}/original")
    assert original.content == content
    assert original.headers["content-type"] == "application/octet-stream"
    assert 'filename="rules.md"' in original.headers["content-disposition"]
    listed = (await client.get("/v1/documents", params={"collection": "house"})).json()
    assert [one["id"] for one in listed] == [document["id"]]


async def test_deletion_is_complete(client: httpx.AsyncClient, tmp_path: Path) -> None:
    reply = await client.post("/v1/documents", files={"files": ("a.txt", b"The code is 8812.")})
    (document,) = reply.json()["documents"]
    assert list((tmp_path / "data" / "originals").rglob("*/*"))
    assert (await client.delete(f"/v1/documents/{document['id']}")).status_code == 204
    assert (await client.get(f"/v1/documents/{document['id']}")).status_code == 404
    assert (await client.get(f"/v1/documents/{document['id']}/original")).status_code == 404
    assert list((tmp_path / "data" / "originals").rglob("*/*")) == []
    asked = await client.post("/v1/query", json={"query": "What is the code?"})
    assert asked.json()["status"] == "abstained"
    again = await client.post("/v1/documents", files={"files": ("a.txt", b"The code is 8812.")})
    assert again.json()["documents"][0]["outcome"] == "added"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "text/plain"}, b"The gate code is 8812."),
        (
            {"content-type": "application/json"},
            json.dumps({"name": "n.md", "text": "The gate code is 8812."}).encode(),
        ),
    ],
)
async def test_text_can_be_sent_without_a_file(
    client: httpx.AsyncClient, headers: dict[str, str], body: bytes
) -> None:
    reply = await client.post("/v1/documents", headers=headers, content=body)
    assert reply.status_code == 201
    assert reply.json()["documents"][0]["chunk_count"] == 1


async def test_the_same_name_again_is_a_new_version(client: httpx.AsyncClient) -> None:
    ids = []
    for code in ("1111", "2222"):
        reply = await client.post(
            "/v1/documents", files={"files": ("a.txt", f"The gate code is {code}.".encode())}
        )
        ids.append(reply.json()["documents"][0]["id"])
    listed = (await client.get("/v1/documents")).json()
    assert [one["id"] for one in listed] == [ids[1]]
    old = await client.get(f"/v1/documents/{ids[0]}")
    assert old.json()["text"] == "The gate code is 1111.", "an old citation still finds its text"


async def test_an_archive_is_unpacked_into_documents(client: httpx.AsyncClient) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "First text.")
        archive.writestr("b.txt", "Second text.")
    reply = await client.post("/v1/documents", files={"files": ("both.zip", buffer.getvalue())})
    names = [document["name"] for document in reply.json()["documents"]]
    assert names == ["both.zip/a.txt", "both.zip/b.txt"]


async def test_an_upload_can_be_watched(client: httpx.AsyncClient) -> None:
    reply = await client.post(
        "/v1/documents",
        params={"wait": "false"},
        files=[("files", (f"{n}.txt", f"Text number {n}.".encode())) for n in range(3)],
    )
    assert reply.status_code == 202
    upload_id = reply.json()["upload_id"]
    async with client.stream("GET", f"/v1/uploads/{upload_id}/events") as stream:
        lines = [line async for line in stream.aiter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    steps = [event["type"] for event in events if event["type"] != "stage"]
    assert steps == ["file", "file", "file", "done"]
    stages = {event["stage"] for event in events if event["type"] == "stage"}
    assert stages <= {"reading", "embedding"}
    assert events[-1]["status"] == "finished"
    status = (await client.get(f"/v1/uploads/{upload_id}")).json()
    assert (status["status"], status["file_count"]) == ("finished", 3)
    assert len(status["documents"]) == 3


def test_without_a_worker_the_sender_learns_that_the_upload_waits(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, **{"ingest.uploads": "workers"})
    engine = Engine(settings, embedder=HashEmbedder())
    engine.intake.no_worker_s = 0.2
    for url in serve(engine):
        files = {"files": ("a.txt", b"The gate is green.")}
        reply = httpx.post(f"{url}/v1/documents", files=files, timeout=LONG_S)
        assert reply.status_code == 202
        told = reply.json()
        assert told["note"] == (
            "No worker took the upload within 0.2 s; it stays queued. Start one: ragstone "
            f"worker. Ask for the result: GET /v1/uploads/{told['upload_id']}"
        )
        assert told["status"] == "running"
        later = httpx.get(f"{url}/v1/uploads/{told['upload_id']}", timeout=LONG_S).json()
        assert (later["status"], later["note"]) == ("running", "")
        reply = httpx.post(
            f"{url}/chat/7/documents",
            files=files,
            headers={"Accept-Language": "de"},
            timeout=LONG_S,
        )
        assert reply.status_code == 202
        note = reply.json().pop("note")
        assert note.startswith("Kein Worker hat den Upload innerhalb von 0.2 s übernommen; er war")
        assert reply.json()["uploaded"] == reply.json()["failed"] == []
        upload_id = note.rpartition("/")[2]
        later = httpx.get(f"{url}/v1/uploads/{upload_id}", timeout=LONG_S).json()
        assert (later["status"], later["collection"]) == ("running", "chat_7")


async def test_the_lines_of_a_span_are_found_on_their_page(client: httpx.AsyncClient) -> None:
    from ..conftest import SAMPLES

    content = (SAMPLES / "contracts/lease-of-the-ridge.pdf").read_bytes()
    reply = await client.post("/v1/documents", files={"files": ("lease.pdf", content)})
    (document,) = reply.json()["documents"]
    all_lines = (await client.get(f"/v1/documents/{document['id']}/lines")).json()
    one = all_lines[5]
    span = {"start": one["start"], "end": one["end"]}
    assert (await client.get(f"/v1/documents/{document['id']}/lines", params=span)).json() == [one]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"content": b"x", "headers": {"content-type": "image/png"}}, "Unsupported Content-Type"),
        ({"data": {"collection": "a"}, "files": {"other": ("a", b"x")}}, "no files"),
        ({"json": {"name": "a"}}, "text"),
        ({"json": {"name": "a", "text": "b", "url": "http://x"}}, "url"),
        ({"files": {"files": ("a.txt", b"x")}, "data": {"metadata": "{"}}, "JSON"),
        ({"files": {"files": ("a.txt", b"x")}, "data": {"collection": "../up"}}, "collection"),
    ],
)
async def test_a_request_that_cannot_be_used_is_explained(
    client: httpx.AsyncClient, tmp_path: Path, sent: dict[str, object], reason: str
) -> None:
    reply = await client.post("/v1/documents", **sent)  # type: ignore[arg-type]
    assert reply.status_code == 422
    assert reason in reply.json()["detail"]
    assert reply.json()["hint"]
    assert spool_of(tmp_path) == []


@pytest.mark.parametrize(
    "path", ["/v1/documents/none", "/v1/uploads/none", "/v1/uploads/none/events"]
)
async def test_an_unknown_id_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_tags_are_changed_without_reading_the_document_again(
    client: httpx.AsyncClient,
) -> None:
    body = {"name": "tagged.md", "text": "# Bell\n\nThe bell rings at noon.", "tags": ["old"],
            "collection": "tags"}  # fmt: skip
    sent = (await client.post("/v1/documents", json=body)).json()
    document_id = sent["documents"][0]["id"]
    changed = await client.patch(
        f"/v1/documents/{document_id}", json={"tags": ["new", " ", "new", "x"]}
    )
    assert changed.json()["metadata"]["tags"] == ["new", "x"]
    asked = {"query": "When does the bell ring?", "collection": "tags"}
    hit = (await client.post("/v1/query", json={**asked, "filters": {"tags": "new"}})).json()
    assert "noon" in hit["answer"]
    assert hit["citations"][0]["document_id"] == document_id
    missed = (await client.post("/v1/query", json={**asked, "filters": {"tags": "old"}})).json()
    assert missed["status"] == "abstained"
    listed = (await client.get("/v1/documents", params={"collection": "tags"})).json()
    assert [one["chunk_count"] for one in listed] == [1]
    again = await client.post(
        "/v1/documents", json={key: body[key] for key in body if key != "tags"}
    )
    assert again.json()["documents"][0]["outcome"] == "unchanged"


async def test_a_document_that_could_not_be_read_is_listed_with_its_remedy(
    client: httpx.AsyncClient,
) -> None:
    files = {"files": ("broken.pdf", b"%PDF-1.7 x")}
    await client.post("/v1/documents", files=files, params={"collection": "broken"})
    [listed] = (await client.get("/v1/documents", params={"collection": "broken"})).json()
    assert "damaged" in listed["error"]
    assert "Save it again" in listed["hint"]
