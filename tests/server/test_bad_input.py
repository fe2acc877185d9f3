"""What no client should send, at every door: a problem document with the request's id, no 500."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import httpx
import pytest

from ..patience import wait_until
from .test_query import problem

pytestmark = pytest.mark.slow

BODIES = {
    "/v1/query": {"query": "Is it so?"},
    "/v1/check-grounding": {"answer": "It is so.", "facts": ["It is so."]},
    "/v1/collections": {"name": "made"},
    "/v1/chat/completions": {
        "model": "ragstone", "messages": [{"role": "user", "content": "Is it so?"}],
    },
    "/api/chat": {"messages": [{"role": "user", "content": "Is it so?"}]},
    "/api/chat/stream": {"messages": [{"role": "user", "content": "Is it so?"}]},
    "/api/chat/compare": {"messages": [{"role": "user", "content": "Is it so?"}]},
    "/chat/1/stream": {"message": "Is it so?"},
    "/search": {"query": "Is it so?"},
}  # fmt: skip
DOORS = sorted(BODIES)
JSON = {"content-type": "application/json"}


def refused(reply: httpx.Response, *statuses: int) -> None:
    assert reply.status_code in statuses, reply.text
    problem(reply, reply.status_code)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"null", b"[]", b'"text"', b"12", b"not json", b"{'single': 1}", b'{"a": NaN}',
        b"\xff\xfe\x00{", b'{"query": "\xff\xfa"}', b"[" * 2000, b'{"query":' * 400,
        b'{"query": 1e999999}', b'{"\\ud800": 1}', b"\x00" * 64,
    ],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, content: bytes) -> None:
    for path in DOORS:
        refused(client.post(path, content=content, headers=JSON), 400, 422)


@pytest.mark.parametrize("path", DOORS)
def test_every_field_of_a_wrong_type_is_refused(client: httpx.Client, path: str) -> None:
    for name in BODIES[path]:
        for wrong in (None, 12, True, {"a": 1}, [[1]], "\ud800"):
            if (name, wrong) == ("answer", None):
                continue
            body = json.dumps({**BODIES[path], name: wrong})
            refused(client.post(path, content=body.encode(), headers=JSON), 422, 404)


TOLERANT = ("/v1/chat/completions", "/api/chat")  # other clients send fields of their own


@pytest.mark.parametrize("path", [path for path in DOORS if not path.startswith(TOLERANT)])
def test_an_unknown_field_is_refused_by_its_name(client: httpx.Client, path: str) -> None:
    reply = client.post(path, json={**BODIES[path], "surprise": 1})
    assert "surprise" in problem(reply, 422)["detail"]


def test_a_field_stream_is_answered_with_the_header_that_asks_for_one(client: httpx.Client) -> None:
    said = problem(client.post("/v1/query", json={"query": "Is it so?", "stream": True}), 422)
    assert said["detail"] == "There is no field 'stream'."
    assert "Accept: text/event-stream" in said["hint"]


@pytest.mark.parametrize("path", DOORS)
def test_a_huge_body_is_a_413(client: httpx.Client, path: str) -> None:
    body = json.dumps({**BODIES[path], "padding": "x" * 1_200_000}).encode()
    problem(client.post(path, content=body, headers=JSON), 413)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/queries/{}", "/v1/queries/{}/explain", "/v1/sessions/{}", "/v1/collections/{}",
        "/v1/documents/{}", "/v1/documents/{}/original", "/v1/uploads/{}", "/v1/models/ragstone/{}",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "name",
    ["nothing", "..%2F..%2Fetc%2Fpasswd", "%00", "%ff%fe", "%0d%0aSet-Cookie:%20a=b", "'%20OR%20",
     "%F0%9F%99%82", "x" * 5000],
)  # fmt: skip
def test_an_unknown_id_is_not_found_whatever_it_looks_like(
    client: httpx.Client, path: str, name: str
) -> None:
    for method in ("GET", "DELETE"):
        reply = client.request(method, path.format(name))
        refused(reply, 404, 405, 422)
        assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/v1/queries", {"skip": "-1"}), ("/v1/queries", {"limit": "many"}),
        ("/v1/queries", {"skip": "9" * 30}), ("/v1/queries", {"limit": "101"}),
        ("/v1/analytics", {"days": "nan"}), ("/v1/analytics", {"days": "1e999"}),
        ("/v1/suggestions", {"prefix": "x" * 2000}), ("/v1/suggestions", {"limit": "0"}),
        ("/v1/sessions", {"limit": "0"}),
    ],
)  # fmt: skip
def test_a_parameter_out_of_bounds_is_a_422(
    client: httpx.Client, path: str, params: dict[str, str]
) -> None:
    problem(client.get(path, params=params), 422)


@pytest.mark.parametrize("prefix", ["%", "_", "'", "\\", "\u0000", "🙂", "ſ", "\u202e"])
def test_any_text_may_be_a_prefix(client: httpx.Client, prefix: str) -> None:
    assert client.get("/v1/suggestions", params={"prefix": prefix}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd", "..\\..\\boot.ini", "/etc/passwd", "a\r\nSet-Cookie: x=y\r\n.txt",
        'a"; filename="b.txt', "nul\x00.txt", "x" * 5000 + ".txt", "\u202egnp.txt", "🙂.txt", ".",
        "<img src=x onerror=alert(1)>.txt", "CON.txt", "-rf.txt",
    ],
)  # fmt: skip
def test_a_file_name_is_shown_and_never_a_path_or_a_header(client: httpx.Client, name: str) -> None:
    """Written by hand: a client library would quote what is hostile in it."""
    head = b'Content-Disposition: form-data; name="file"; filename="'
    body = b"--B\r\n" + head + name.encode() + b'"\r\n\r\nThe gate is green.\r\n--B--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=B"}
    for path in ("/documents?x=1", "/v1/documents?collection=names", "/chat/names/documents"):
        reply = client.post(path, content=body, headers=headers)
        assert "set-cookie" not in reply.headers
        if reply.status_code >= 400:
            refused(reply, 400, 422)
            continue
        for document_id in _ids(reply.json()):
            whole = client.get(f"/v1/documents/{document_id}").json()
            assert ".." not in whole["name"].split("/")
            original = client.get(f"/v1/documents/{document_id}/original")
            assert original.content == b"The gate is green."
            assert "set-cookie" not in original.headers
            assert client.delete(f"/v1/documents/{document_id}").status_code == 204


def _ids(reply: dict[str, Any]) -> list[str]:
    if "document_id" in reply:
        return [reply["document_id"]]
    return [one["id"] for one in reply.get("documents") or reply.get("uploaded") or []]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "multipart/form-data"}, b"--B\r\n"),
        ({"content-type": "multipart/form-data; boundary=B"}, b""),
        ({"content-type": "multipart/form-data; boundary=B"}, b"--B\r\nnonsense"),
        ({"content-type": "multipart/form-data; boundary=" + "B" * 300}, b"--B\r\n\r\n--B--"),
        ({"content-type": "application/octet-stream"}, b"\x00\x01"),
        ({}, b"x"),
    ],
)
@pytest.mark.parametrize("path", ["/documents", "/v1/documents", "/chat/1/documents"])
def test_a_broken_form_is_refused(
    client: httpx.Client, path: str, headers: dict[str, str], body: bytes
) -> None:
    refused(client.post(path, content=body, headers=headers), 400, 422)


def test_every_door_is_in_the_openapi_with_an_example_of_its_body(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    for path in DOORS:
        door = document["paths"][path.replace("/chat/1/", "/chat/{chat_id}/")]["post"]
        schema = door["requestBody"]["content"]["application/json"]["schema"]
        named = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert named["examples"], path
        assert door["description"] or door["summary"]


@pytest.mark.parametrize("path", ["/v1/documents", "/documents", "/chat/a/documents"])
def test_a_form_without_a_boundary_is_not_called_json(client: httpx.Client, path: str) -> None:
    headers = {"content-type": "multipart/form-data"}
    said = problem(client.post(path, content=b"abc", headers=headers), 400)
    assert "boundary" in said["detail"]
    assert "JSON" not in said["detail"] + said["hint"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {"range": "nonsense"}, 400),
        ("/ui/style.css", {"range": "bytes=99999999-"}, 416),
        ("/ui/style.css", {"range": "bytes=5-2"}, 400),
    ],
)
def test_a_range_that_cannot_be_had_is_a_problem_document(
    client: httpx.Client, path: str, headers: dict[str, str], status: int
) -> None:
    reply = client.get(path, headers=headers)
    problem(reply, status)
    assert ("content-range" in reply.headers) == (status == 416)


def test_what_assistants_send_wrongly_is_a_problem_document(client: httpx.Client) -> None:
    reply = client.post("/mcp", content=b"x", headers={"content-type": "text/plain"})
    assert "Content-Type" in problem(reply, 400)["detail"]


def test_a_wrong_method_is_told_the_right_ones(client: httpx.Client) -> None:
    reply = client.put("/v1/query", json={})
    assert problem(reply, 405)["detail"] == "/v1/query does not accept PUT."
    assert reply.headers["allow"] == "POST"


def test_an_unknown_address_is_named(client: httpx.Client) -> None:
    assert problem(client.get("/v1/nothing"), 404)["detail"] == "There is nothing at /v1/nothing."


HALF = "half \ud800 of a pair"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/query", {"query": "Is it so?", "upload_id": HALF}),
        ("/v1/query", {"query": "Is it so?", "upload_id": "a\0b"}),
        ("/v1/query", {"query": "Is it so?", "session_id": HALF}),
        ("/v1/query", {"query": "Is it so?", "collection": HALF}),
        ("/v1/query", {"query": "Is it so?", "filters": {"tags": HALF}}),
        ("/v1/query", {"query": "Is it so?", "filters": {HALF: 1}}),
        ("/v1/check-grounding", {"answer": HALF, "facts": ["It is."]}),
        ("/v1/check-grounding", {"answer": "It is.", "facts": [HALF]}),
        ("/api/chat", {"messages": [{"role": "user", "content": HALF}], "rag_enabled": False}),
        ("/api/chat", {"messages": [{"role": "user", "content": "Is it so?"}], "model": HALF}),
        ("/v1/chat/completions",
         {"model": "ragstone", "messages": [{"role": "system", "content": HALF}]}),
        ("/v1/documents", {"name": HALF, "text": "It is."}),
        ("/v1/documents", {"name": "it.md", "text": HALF}),
        ("/v1/documents", {"name": "it.md", "text": "It is.", "metadata": {"a": HALF}}),
        ("/v1/documents", {"name": "it.md", "text": "It is.", "metadata": {"a": "a\0b"}}),
        ("/v1/documents", {"name": "it.md", "text": "It is.", "metadata": {"a": float("nan")}}),
    ],
)  # fmt: skip
def test_half_a_character_is_refused_wherever_it_stands(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    for headers in (JSON, JSON | {"accept": "text/event-stream"}):
        refused(client.post(path, content=json.dumps(body).encode(), headers=headers), 422)


@pytest.mark.parametrize(
    "written", ['{"a": "\\ud800"}', '{"a": NaN}', '{"a": 1e999}', '{"\\u0000": 1}']
)
def test_metadata_that_could_never_be_sent_back_is_refused(
    client: httpx.Client, written: str
) -> None:
    for path in ("/documents", "/v1/documents", "/chat/1/documents"):
        files = {"files": ("it.txt", b"It is so.")}
        refused(client.post(path, files=files, data={"metadata": written}), 422)


def test_a_file_with_odd_front_matter_can_be_listed_and_found(client: httpx.Client) -> None:
    text = '---\ntitle: "a\\ud800b\\0"\nyear: .nan\n---\n\n# Porch\n\nThe porch is teal.\n'
    body = {"name": "porch.md", "text": text, "collection": "odd"}
    assert client.post("/v1/documents", json=body).json()["failed"] == []
    (listed,) = client.get("/v1/documents", params={"collection": "odd"}).json()
    assert (listed["metadata"]["title"], listed["metadata"]["year"]) == ("ab", "nan")
    found = client.post("/search", json={"query": "teal porch", "collection": "odd"}).json()
    assert found["results"][0]["metadata"]["year"] == "nan"


@pytest.mark.parametrize("path", ["/v1/documents", "/documents", "/chat/1/documents", "/v1/query"])
def test_a_body_that_is_cut_off_is_no_failure_of_ours(
    address: str, client: httpx.Client, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    kind = b"application/json" if path == "/v1/query" else b"multipart/form-data; boundary=B"
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n" % path.encode()
    body = b'--B\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nThe'
    before = _counted(client, path)
    with socket.create_connection((httpx.URL(address).host, httpx.URL(address).port or 0)) as cut:
        cut.sendall(head + b"Content-Type: " + kind + b"\r\n\r\n" + body)
    wait_until(lambda: _counted(client, path) > before)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def _counted(client: httpx.Client, path: str) -> float:
    """Requests at a door that ended without a reply or with a refusal."""
    door = path.replace("/chat/1/", "/chat/{chat_id}/")
    lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("ragstone_http_requests_total{")
             and f'route="{door}"' in line and re.search(r'status="4\d\d"', line)]  # fmt: skip
    return sum(float(line.rpartition(" ")[2]) for line in found)
