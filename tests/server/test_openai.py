"""The official OpenAI client talks to the documents, streaming and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from ..lazy import Lazy
from ..providers.stand_in import StandIn
from .events import stream
from .test_query import problem

if TYPE_CHECKING:
    import openai
else:
    openai = Lazy("openai")

QUESTION = [{"role": "user", "content": "The gate is green?"}]


@pytest.fixture
def sdk(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def written_sdk(written_address: str, model: StandIn) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{written_address}/v1", api_key="x", max_retries=0) as client:
        yield client


def test_the_models_are_the_collections(sdk: openai.OpenAI) -> None:
    assert "ragstone/default" in [model.id for model in sdk.models.list()]
    assert sdk.models.retrieve("ragstone/default").owned_by == "ragstone"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("ragstone/nothing")


def test_an_answer_carries_its_citations_as_annotations(
    sdk: openai.OpenAI, client: httpx.Client
) -> None:
    asked = {"role": "user", "content": "When was the gate painted?"}
    reply = sdk.chat.completions.create(model="ragstone/default", messages=[asked])  # type: ignore[list-item]
    message = reply.choices[0].message
    assert message.content
    assert message.annotations
    citation = message.annotations[0].url_citation
    assert message.content[citation.start_index : citation.end_index] == "[Source 1]"
    assert citation.title == "gate.txt"
    fragment = urlsplit(citation.url).fragment
    _, kind, document_id, start, end = fragment.split("/")
    assert kind == "source"
    text = client.get(f"/v1/documents/{document_id}").json()["text"]
    assert text[int(start) : int(end)] == "It was painted in 2020."
    assert reply.usage
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 0


def test_a_stream_ends_with_annotations_into_what_was_streamed(
    written_sdk: openai.OpenAI, model: StandIn
) -> None:
    model.words = ["Sure! ", "The gate is ", "green [Sou", "rce 1]. It was painted ", "in 2020."]
    content, notes, usage, finish = "", [], None, None
    with written_sdk.chat.completions.create(
        model="ragstone",
        messages=QUESTION,
        stream=True,
        stream_options={"include_usage": True},  # type: ignore[arg-type]
    ) as chunks:
        for chunk in chunks:
            for choice in chunk.choices:
                content += choice.delta.content or ""
                finish = choice.finish_reason or finish
                notes += getattr(choice.delta, "annotations", None) or []
            usage = chunk.usage or usage
    assert finish == "stop"
    assert content == "Sure! The gate is green [Source 1]. It was painted in 2020. [Source 1]"
    places = [note["url_citation"] for note in notes]
    assert [content[p["start_index"] : p["end_index"]] for p in places] == [
        "[Source 1]", "[Source 1]",
    ], "a sentence that came without a marker got one before it went out"  # fmt: skip
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (100, 20)


def read_stream(sdk: openai.OpenAI) -> str:
    chunks = sdk.chat.completions.create(model="ragstone", messages=QUESTION, stream=True)  # type: ignore[arg-type]
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices)


def test_a_marker_that_is_wrong_or_points_nowhere_never_goes_out(
    written_sdk: openai.OpenAI, model: StandIn
) -> None:
    model.words = ["The gate ", "is green [", "7]. Bananas grow", " in Ecuador [Source 1]."]
    assert read_stream(written_sdk) == "The gate is green. [Source 1] Bananas grow in Ecuador."


def test_a_picture_from_elsewhere_never_goes_out(
    written_sdk: openai.OpenAI, model: StandIn
) -> None:
    model.words = ["The gate is green [1]. ![", "x](https://evil", ".example/?q=gate) Done."]
    assert "evil" not in read_stream(written_sdk)


async def test_the_async_client_streams_too(written_address: str, model: StandIn) -> None:
    async with openai.AsyncOpenAI(base_url=f"{written_address}/v1", api_key="x") as sdk:
        stream = await sdk.chat.completions.create(
            model="ragstone/default",
            messages=QUESTION,
            stream=True,  # type: ignore[arg-type]
        )
        pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    assert "".join(piece or "" for piece in pieces) == "The gate is green [Source 1]."


def test_the_conversation_goes_along(written_sdk: openai.OpenAI, model: StandIn) -> None:
    earlier = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Who made it?"}]},
        {"role": "assistant", "content": "Nobody knows."},
    ]
    written_sdk.chat.completions.create(
        model="ragstone/default",
        messages=[*earlier, *QUESTION],
        top_p=0.5,
        seed=1,  # type: ignore[list-item]
    )
    sent = model.calls[-1]["body"]["messages"]
    assert [one["role"] for one in sent] == ["system", "system", "user", "assistant", "user"]
    assert [one["content"] for one in sent[1:]] == [
        "Be kind.", "Who made it?", "Nobody knows.", "The gate is green?",
    ]  # fmt: skip


def test_an_unknown_model_and_bad_requests_are_the_clients_own_errors(sdk: openai.OpenAI) -> None:
    for name in ("gpt-4", "ragstone/nothing"):
        with pytest.raises(openai.NotFoundError, match="There is no model"):
            sdk.chat.completions.create(model=name, messages=QUESTION)  # type: ignore[arg-type]
    for more in ({"n": 2}, {"temperature": 5}, {"messages": []}):
        with pytest.raises(openai.UnprocessableEntityError):
            sdk.chat.completions.create(**{"model": "ragstone", "messages": QUESTION, **more})  # type: ignore[arg-type]
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(openai.UnprocessableEntityError):
        sdk.chat.completions.create(
            model="ragstone",
            messages=[{"role": "user", "content": [picture]}],  # type: ignore[list-item,misc]
        )


def test_a_stream_ends_with_done(client: httpx.Client) -> None:
    body = {"model": "ragstone/default", "messages": QUESTION, "stream": True}
    with client.stream("POST", "/v1/chat/completions", json=body) as reply:
        lines = [line for line in reply.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    shapes = [*stream(client, "/v1/chat/completions", body)]
    assert {shape["object"] for shape in shapes} == {"chat.completion.chunk"}
    assert shapes[0]["choices"][0]["delta"]["role"] == "assistant"


def test_a_failure_within_a_stream_is_raised_by_the_client(
    written_sdk: openai.OpenAI, written: httpx.Client, model: StandIn
) -> None:
    model.behaviours = ["cut"]
    chunks = written_sdk.chat.completions.create(
        model="ragstone",
        messages=QUESTION,
        stream=True,  # type: ignore[arg-type]
        # Without documents there is nothing to quote instead.
        extra_body={"rag_enabled": False},
    )
    with pytest.raises(openai.APIError, match="closed the connection"):
        list(chunks)


@pytest.mark.parametrize(
    "body", [{}, [], {"model": "ragstone"}, {"model": 1, "messages": QUESTION}]
)
def test_a_wrong_body_is_a_problem(client: httpx.Client, body: object) -> None:
    problem(client.post("/v1/chat/completions", json=body), 422)
