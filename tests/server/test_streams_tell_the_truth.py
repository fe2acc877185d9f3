"""Whatever a model writes, a reader of any stream ends with the text of the answer, is told when it
replaces another one, and never gets a marker that points nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from ragstone.server.events import REPLACED_NOTICE

from ..patience import LONG_S
from ..providers.stand_in import StandIn
from .conftest import DOCUMENTS, serve_with_model
from .events import events

ASKED = "Is the gate green?"
MESSAGES = [{"role": "user", "content": ASKED}]
COMPLETIONS = "/v1/chat/completions"
STREAMS: dict[str, dict[str, Any]] = {
    "/v1/query": {"query": ASKED},
    "/api/chat/stream": {"messages": MESSAGES},
    "/chat/9/stream": {"message": ASKED},
    COMPLETIONS: {"model": "ragstone", "messages": MESSAGES, "stream": True},
}
MARKS = ["[1]", "【1】", "(Source 1)", "[^1]", "[Source 1]", "[9]", "【9†source】", "(Source 9)",
         "[^9]", "[Source 77]", "[Sources 1, 9]"]  # fmt: skip
# Everything that a reader would take for a marker, and the markers of the one source there is.
LOOKS_LIKE_A_MARKER = re.compile(r"\[[^\]\n]*\d[^\]\n]*\]|【[^】\n]*】|\(Sources? \d+\)")
GOOD_MARKER = re.compile(r"\[(?:Source 1|[0-9a-f]{24}:0)\]")


def find_bad_markers(text: str) -> list[str]:
    return [one for one in LOOKS_LIKE_A_MARKER.findall(text) if not GOOD_MARKER.fullmatch(one)]


@dataclass(frozen=True)
class Shown:
    """What a client of a stream has seen."""

    streamed: str
    final: str
    is_announced: bool

    @property
    def at_the_end(self) -> str:
        """The text that counts for the reader: a client of OpenAI's protocol cannot replace."""
        text = self.final or self.streamed.rpartition(REPLACED_NOTICE)[2]
        return GOOD_MARKER.sub("[Source 1]", text)


def read_stream(client: httpx.Client, path: str) -> Shown:
    if path.startswith("/chat/"):
        note = {"files": ("gate.txt", DOCUMENTS["gate.txt"].encode())}
        assert client.post("/chat/9/documents", files=note).status_code == 200
    found = events(client, path, STREAMS[path])
    if path == COMPLETIONS:
        deltas = [choice["delta"] for event in found for choice in event["choices"]]
        content = "".join(delta.get("content") or "" for delta in deltas)
        return Shown(content, "", REPLACED_NOTICE in content)
    streamed = "".join(event["content"] for event in found if event["type"] == "token")
    replaced = [event["content"] for event in found if event["type"] == "replaced"]
    last = found[-1]
    answer = (
        last["answer"] if "answer" in last else last["data"]["choices"][0]["message"]["content"]
    )
    assert last["type"] == "done"
    assert [answer] == replaced or (not replaced and streamed.strip() == answer)
    return Shown(streamed, answer, bool(replaced))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("path", STREAMS)
def test_no_stream_holds_a_marker_that_points_nowhere(
    written: httpx.Client, model: StandIn, path: str, mark: str
) -> None:
    # In pieces of three characters: a marker comes in parts.
    text = f"The gate is green {mark}. It was painted in 2020. {mark}"
    model.words = [text[at : at + 3] for at in range(0, len(text), 3)]
    shown = read_stream(written, path)
    assert find_bad_markers(shown.streamed) == []
    assert LOOKS_LIKE_A_MARKER.findall(shown.at_the_end) == ["[Source 1]"] * 2
    assert not shown.is_announced or path != COMPLETIONS, "a marker is no other text"


@pytest.mark.parametrize("path", STREAMS)
def test_a_false_sentence_loses_its_marker_or_is_called_false(
    written: httpx.Client, model: StandIn, path: str
) -> None:
    model.words = ["The gate is green [1]. ", "Bananas grow in Ecuador [1]."]
    shown = read_stream(written, path)
    assert shown.at_the_end == "The gate is green [Source 1]. Bananas grow in Ecuador."
    assert shown.is_announced == (path != COMPLETIONS), "held until its marker is resolved"


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("said", ["loop", "broken off"])
def test_a_withdrawn_text_is_announced(
    written: httpx.Client, model: StandIn, path: str, said: str
) -> None:
    model.words = ["It is so as I say it is. "] * 20
    model.behaviours = ["cut"] if said == "broken off" else []
    shown = read_stream(written, path)
    assert "It is so" not in shown.at_the_end
    assert "The gate is green." in shown.at_the_end
    assert shown.is_announced == ("It is so" in shown.streamed)
    assert find_bad_markers(shown.streamed) == []


@pytest.fixture(scope="module")
def rewriting_address(
    tmp_path_factory: pytest.TempPathFactory, model_server: StandIn
) -> Iterator[str]:
    """A server that writes an answer again when nothing supports it."""
    folder = tmp_path_factory.mktemp("rewriting")
    yield from serve_with_model(folder, model_server, **{"check.max_iterations": 2})


@pytest.mark.parametrize("path", STREAMS)
def test_a_rewritten_answer_is_announced(rewriting_address: str, model: StandIn, path: str) -> None:
    said = iter([["Bananas grow in ", "Ecuador [1]."], ["The gate is green [1]."]])

    def say(body: dict[str, Any]) -> list[str]:
        # A small model that is asked for other wordings or verdicts has none.
        return ["{}"] if "json" in str(body.get("response_format")) else next(said)

    model.say = say
    with httpx.Client(base_url=rewriting_address, timeout=LONG_S) as client:
        shown = read_stream(client, path)
    assert "Bananas" in shown.streamed
    assert shown.is_announced
    assert "Bananas" not in shown.at_the_end
    assert shown.at_the_end == "The gate is green [Source 1]."


def test_the_sides_of_a_comparison_are_replaced_one_by_one(
    written: httpx.Client, model: StandIn
) -> None:
    model.words = ["The gate is green [9]. Bananas grow in Ecuador [1]."]
    found = events(written, "/api/chat/stream?compare=true", {"messages": MESSAGES})
    for side in ("baseline", "enhanced"):
        mine = [event for event in found if event.get("side") == side]
        streamed = "".join(event["content"] for event in mine if event["type"] == "token")
        assert find_bad_markers(streamed) == []
        (replaced,) = [event["content"] for event in mine if event["type"] == "replaced"]
        shown = GOOD_MARKER.sub("[Source 1]", replaced)
        assert shown == "The gate is green. [Source 1] Bananas grow in Ecuador."
