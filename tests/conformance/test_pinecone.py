"""Test the Pinecone index against a stand-in for its REST API that is as strict as documented."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from ragstone.catalog.documents import SqlCatalog
from ragstone.engine import Engine
from ragstone.errors import SettingsError, StoreError, StoreUnavailableError
from ragstone.filters import SearchScope, parse_filter
from ragstone.index.pinecone import PineconeIndex, _split_records, build_filter
from ragstone.protocols import Catalog, Index
from ragstone.server.app import create_app
from ragstone.settings import IndexSettings
from ragstone.testing import HashEmbedder
from ragstone.testing.conformance import (
    DIMENSION,
    EMBEDDER,
    IndexConformance,
    get_keys,
    make_document,
    make_unit_vectors,
)

from ..conftest import settings_in
from ..patience import LONG_S
from .pinecone_stand_in import Pinecone, running_pinecone
from .test_indexes import embedded, fill, overlap

pytestmark = pytest.mark.slow

TEXTS = ["The wind is strong on the ridge.", "The rent is due in July.", "A gate in the wind."]


@pytest.fixture
def pinecone() -> Iterator[Pinecone]:
    with running_pinecone(Pinecone(DIMENSION)) as state:
        yield state


def open_index(catalog: Catalog, pinecone: Pinecone, **options: object) -> PineconeIndex:
    given = {"pinecone_url": pinecone.url, "pinecone_api_key": SecretStr(pinecone.key)}
    given |= {"pinecone_timeout_s": 60, "pinecone_write_timeout_s": 60, **options}
    settings = IndexSettings.model_validate(given)
    return PineconeIndex(catalog, settings, dimension=DIMENSION, embedder=EMBEDDER)


class TestPinecone(IndexConformance):
    @pytest.fixture
    def index(self, catalog: Catalog, pinecone: Pinecone) -> Iterator[Index]:
        index = open_index(catalog, pinecone)
        yield index
        index.close()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with closing(SqlCatalog.in_directory(tmp_path)) as catalog:
        catalog.add([make_document("a", TEXTS)], embedder=EMBEDDER)
        yield catalog


@pytest.fixture
def index(catalog: SqlCatalog, pinecone: Pinecone) -> Iterator[PineconeIndex]:
    with closing(open_index(catalog, pinecone)) as index:
        index.refresh("c")
        yield index


def find_keys(index: PineconeIndex, text: str) -> list[int]:
    return get_keys(index.search_keyword("c", text, limit=10, k1=1.2, b=0.75))


def test_each_collection_has_a_namespace(
    catalog: SqlCatalog, index: PineconeIndex, pinecone: Pinecone
) -> None:
    catalog.add([make_document("b", ["Wind."], collection="other")], embedder=EMBEDDER)
    index.refresh("other")
    names = [name for name in pinecone.logs if not name.endswith(".marker")]
    assert [name.rpartition(".")[2] for name in names] == ["c", "other"]
    assert len({name.split(".")[0] for name in names}) == 1  # one embedder, one generation


def test_a_reader_of_another_process_sees_what_was_written(
    catalog: SqlCatalog, index: PineconeIndex, pinecone: Pinecone
) -> None:
    with closing(open_index(catalog, pinecone)) as reader:
        assert find_keys(reader, "wind") == find_keys(index, "wind") != []


def test_embedded_and_pinecone_agree(tmp_path: Path, pinecone: Pinecone) -> None:
    """As with Qdrant, keyword results differ by tantivy's rounded lengths alone."""
    (tmp_path / "both").mkdir()
    with (
        closing(SqlCatalog.in_directory(tmp_path / "both")) as catalog,
        closing(embedded(catalog, tmp_path / "both")) as here,
        closing(open_index(catalog, pinecone)) as there,
    ):
        vectors = fill(catalog, documents=30)
        here.refresh("c")
        there.refresh("c")
        assert here.counts("c").dense == there.counts("c").dense == 300
        shares: list[float] = []
        for at in range(10):
            found = [
                get_keys(one.search_dense("c", vectors[at], limit=10)) for one in (here, there)
            ]
            assert overlap(found[0], found[1], 10) >= 0.9
            text = f"word{at} word{at + 20} word{3 * at}"
            words = [
                get_keys(one.search_keyword("c", text, limit=10, k1=1.2, b=0.75))
                for one in (here, there)
            ]
            shares.append(overlap(words[0], words[1], 10))
    print(f"the same first ten keyword hits: {sum(shares) / len(shares):.3f}")
    assert sum(shares) / len(shares) >= 0.9


def test_records_that_are_gone_are_an_error_until_the_index_is_rebuilt(
    catalog: SqlCatalog, index: PineconeIndex, pinecone: Pinecone
) -> None:
    pinecone.logs.clear()
    with closing(open_index(catalog, pinecone)) as reader:
        with pytest.raises(StoreError, match="ragstone reindex --collection c"):
            find_keys(reader, "wind")
        reader.rebuild("c")
        assert len(find_keys(reader, "wind")) == 2


def test_a_write_is_sent_again_when_the_server_is_busy(
    catalog: SqlCatalog, index: PineconeIndex, pinecone: Pinecone
) -> None:
    catalog.add([make_document("b", ["More wind."])], embedder=EMBEDDER)
    pinecone.statuses = [429, 503]
    with closing(open_index(catalog, pinecone, pinecone_retries=5)) as writer:
        writer.refresh("c")
        assert len(find_keys(writer, "wind")) == 3


def test_a_wrong_key_is_named_and_not_shown(catalog: SqlCatalog, pinecone: Pinecone) -> None:
    wrong = SecretStr("pcsk-wrong-key")
    with closing(open_index(catalog, pinecone, pinecone_api_key=wrong)) as index:
        with pytest.raises(StoreError, match="refuses the API key") as caught:
            index.refresh("c")
        assert "PINECONE_API_KEY" in caught.value.hint
        assert "pcsk" not in str(caught.value)
    with pytest.raises(SettingsError, match="needs an API key"):
        open_index(catalog, pinecone, pinecone_api_key=SecretStr(""))


def test_an_index_of_another_form_is_refused_with_the_right_one(
    catalog: SqlCatalog, pinecone: Pinecone
) -> None:
    for name, value in (("metric", "cosine"), ("dimension", 8)):
        before = getattr(pinecone, name)
        setattr(pinecone, name, value)
        index = open_index(catalog, pinecone)
        with closing(index), pytest.raises(StoreError, match="16 and dotproduct"):
            index.refresh("c")
        setattr(pinecone, name, before)
    with closing(open_index(catalog, pinecone, pinecone_index="missing")) as index:
        with pytest.raises(StoreError, match="has no index 'missing'") as caught:
            index.refresh("c")
        assert "dimension 16 and metric dotproduct" in caught.value.hint
    pinecone.is_ready = False
    index = open_index(catalog, pinecone)
    with closing(index), pytest.raises(StoreUnavailableError, match="not ready"):
        index.refresh("c")


def test_a_server_that_is_away_is_unavailable(catalog: SqlCatalog, pinecone: Pinecone) -> None:
    away = {"pinecone_url": "http://127.0.0.1:9", "pinecone_retries": 0}
    with closing(open_index(catalog, pinecone, **away)) as index:
        for _ in range(2):
            with pytest.raises(StoreUnavailableError) as caught:
                index.refresh("c")
            assert "127.0.0.1" not in str(caught.value)


async def test_the_server_answers_503_when_pinecone_is_away(
    tmp_path: Path, pinecone: Pinecone
) -> None:
    pinecone.dimension = HashEmbedder().dimension
    (tmp_path / "gate.txt").write_text("The gate is green.")
    flags = {"index.kind": "pinecone", "index.pinecone_url": pinecone.url,
             "index.pinecone_api_key": pinecone.key, "index.pinecone_timeout_s": 60,
             "retrieve.method": "semantic"}  # fmt: skip
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "gate.txt"])
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        reply = await client.post("/v1/query", json={"query": "What colour is the gate?"})
        assert reply.json()["status"] == "answered"
        pinecone.statuses = [503] * 20
        reply = await client.post("/v1/query", json={"query": "Who painted the gate?"})
        assert reply.status_code == 503
        assert "Pinecone" in reply.json()["detail"]
    engine.close()


def test_requests_stay_below_the_limits_of_pinecone() -> None:
    record = {"id": "1", "values": [0.1234567] * 1536, "metadata": {"key": 1}}
    batches = list(_split_records(record for _ in range(1500)))
    assert sum(map(len, batches)) == 1500
    assert max(map(len, batches)) <= 1000
    assert len(batches) > 2


def test_a_long_chunk_keeps_its_heaviest_terms(catalog: SqlCatalog, index: PineconeIndex) -> None:
    text = " ".join([f"word{at}" for at in range(1500)] + ["lighthouse"] * 5)
    catalog.add([make_document("long", [text])], embedder=EMBEDDER)
    index.refresh("c")
    assert len(find_keys(index, "lighthouse")) == 1


def test_filters_of_our_own_fields_are_sent_and_all_others_are_resolved() -> None:
    def translate(written: dict[str, object]) -> dict[str, object]:
        return build_filter(SearchScope(parse_filter(written), [range(3, 6)]))

    assert translate({"document_id": "a", "page": {"gte": 2, "lt": 9}}) == {
        "$and": [
            {"document_id": {"$eq": "a"}},
            {"$and": [{"page": {"$gte": 2}}, {"page": {"$lt": 9}}]},
        ]
    }
    assert translate({"upload_id": ["u", "v"]}) == {"upload_id": {"$in": ["u", "v"]}}
    assert translate({"page": {"exists": False}}) == {"page": {"$exists": False}}
    resolved = {"$or": [{"$and": [{"key": {"$gte": 3}}, {"key": {"$lt": 6}}]}]}
    for written in ({"year": 2020}, {"not": {"page": 1}}, {"media_type": {"gt": "a"}},
                    {"page": True}):  # fmt: skip
        assert translate(written) == resolved
    nothing = SearchScope(parse_filter({"year": 2020}), [])
    assert build_filter(nothing) == {"key": {"$lt": 0}}


def test_the_stand_in_refuses_what_pinecone_refuses(pinecone: Pinecone) -> None:
    headers = {"api-key": pinecone.key, "x-pinecone-api-version": "2025-10"}
    vector = [float(one) for one in make_unit_vectors(1)[0]]
    good = {"vectors": [{"id": "1", "values": vector}], "namespace": "n"}
    bad = [
        ("/vectors/upsert", {**good, "unknown": 1}),
        ("/vectors/upsert", {"vectors": [{"id": 1, "values": vector}]}),
        ("/vectors/upsert", {"vectors": [{"id": "1", "values": [0.0] * DIMENSION}]}),
        ("/vectors/upsert", {"vectors": [{"id": "1", "values": vector, "metadata": {"a": None}}]}),
        ("/vectors/upsert", {"vectors": [{"id": "1", "values": vector,
                                          "metadata": {"a": "x" * 41_000}}]}),
        ("/query", {"vector": vector}),
        ("/query", {"vector": vector, "topK": 10_001}),
        ("/query", {"vector": vector[:-1], "topK": 1}),
        ("/query", {"vector": vector, "topK": 1, "namespace": "n", "filter": {"a": {"$not": 1}}}),
        ("/vectors/delete", {"ids": ["1"], "deleteAll": True}),
    ]  # fmt: skip
    pinecone.lag_s = LONG_S
    with httpx.Client(base_url=pinecone.url, headers=headers, timeout=LONG_S) as client:
        assert client.post("/vectors/upsert", json=good).status_code == 200
        assert (
            client.post("/query", json={"vector": vector, "topK": 1, "namespace": "n"}).json()[
                "matches"
            ]
            == []
        )  # it is not seen yet
        pinecone.lag_s = 0.0
        for path, body in bad:
            assert client.post(path, json=body).status_code == 400, body
        assert client.get("/vectors/list?namespace=n").json()["vectors"] == [{"id": "1"}]
        assert client.post("/query", json=good, headers={"api-key": "x"}).status_code == 401
