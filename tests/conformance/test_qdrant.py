"""Test what only an index on servers has: tenants, epochs, lost data, nodes that are away."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from ragstone.catalog.backup import restore_backup, write_backup
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.schema import index_terms
from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.index import qdrant_nodes
from ragstone.index.progress import ProgressStore
from ragstone.index.qdrant import QdrantIndex
from ragstone.index.verify import check_index_files
from ragstone.protocols import Catalog
from ragstone.settings import IndexSettings
from ragstone.testing.conformance import DIMENSION, EMBEDDER, make_document, make_unit_vectors

from ..patience import LONG_S

TEXTS = ["The wind is strong on the ridge.", "The rent is due in July.", "A gate in the wind."]


def open_index(
    catalog: Catalog, url: str, prefix: str, shards: int = 1, *, timeout_s: float = 30
) -> QdrantIndex:
    options = IndexSettings(
        qdrant_url=url,
        qdrant_prefix=prefix,
        qdrant_shards=shards,
        qdrant_timeout_s=timeout_s,
        qdrant_retries=0,
    )
    return QdrantIndex(catalog, options, dimension=DIMENSION, embedder=EMBEDDER)


def find_texts(catalog: Catalog, index: QdrantIndex, text: str, **options: float) -> list[str]:
    given = {"k1": 1.2, "b": 0.75, **options}
    hits = index.search_keyword("c", text, limit=10, **given)  # type: ignore[arg-type]
    return [catalog.chunks([hit.key])[hit.key].text for hit in hits]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"t{abs(hash(tmp_path)) % 10**10}_"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with closing(SqlCatalog.in_directory(tmp_path / "one")) as catalog:
        catalog.add([make_document("a", TEXTS)], embedder=EMBEDDER)
        yield catalog


@pytest.fixture(autouse=True)
def directories(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()


@pytest.fixture
def index(catalog: SqlCatalog, qdrant_url: str, prefix: str) -> Iterator[QdrantIndex]:
    with closing(open_index(catalog, qdrant_url, prefix)) as index:
        index.refresh("c")
        yield index


def test_other_values_of_bm25_need_no_other_index(catalog: SqlCatalog, index: QdrantIndex) -> None:
    for k1, b in ((1.2, 0.75), (0.0, 0.0), (2.0, 1.0)):
        assert set(find_texts(catalog, index, "wind", k1=k1, b=b)) == {TEXTS[0], TEXTS[2]}
    assert index.counts("c").dense == 3


def test_catalogs_with_the_same_prefix_do_not_meet(
    tmp_path: Path, catalog: SqlCatalog, index: QdrantIndex, qdrant_url: str, prefix: str
) -> None:
    with closing(SqlCatalog.in_directory(tmp_path / "two")) as other:
        other.add([make_document("b", ["Wind elsewhere."])], embedder=EMBEDDER)
        with closing(open_index(other, qdrant_url, prefix)) as second:
            assert find_texts(other, second, "wind") == ["Wind elsewhere."]
            assert second.counts("c").dense == 1
            assert len(find_texts(catalog, index, "wind")) == 2
            second.rebuild("c")
    assert index.counts("c").dense == 3


def test_after_a_restore_an_index_that_is_ahead_is_not_searched(
    tmp_path: Path, catalog: SqlCatalog, index: QdrantIndex, qdrant_url: str, prefix: str
) -> None:
    write_backup(tmp_path / "one", tmp_path / "backup.tar")
    catalog.add([make_document("z", ["Wind that was lost."])], embedder=EMBEDDER)
    index.refresh("c")
    restore_backup(tmp_path / "backup.tar", tmp_path / "two")
    with closing(SqlCatalog.in_directory(tmp_path / "two")) as restored:
        assert restored.identity() != catalog.identity()
        # It takes the number and the keys of the change that the index has seen.
        restored.add([make_document("n", ["Wind that is new."])], embedder=EMBEDDER)
        with closing(open_index(restored, qdrant_url, prefix)) as after:
            found = find_texts(restored, after, "wind")
            assert set(found) == {TEXTS[0], TEXTS[2], "Wind that is new."}
            assert after.counts("c").dense == restored.counts("c").chunks == 4
            assert list_states(after, repair=False) == ["ok"]


def list_states(index: QdrantIndex, *, repair: bool) -> list[str]:
    """Return what `doctor --deep` says of the content on the server."""
    return [one.state for one in check_index_files(index, ["c"], repair=repair)]


def test_after_a_restore_the_doctor_tells_and_repairs(
    tmp_path: Path, catalog: SqlCatalog, index: QdrantIndex, qdrant_url: str, prefix: str
) -> None:
    write_backup(tmp_path / "one", tmp_path / "backup.tar")
    catalog.add([make_document("z", ["Wind that was lost."])], embedder=EMBEDDER)
    index.refresh("c")
    restore_backup(tmp_path / "backup.tar", tmp_path / "two")
    with (
        closing(SqlCatalog.in_directory(tmp_path / "two")) as restored,
        closing(open_index(restored, qdrant_url, prefix)) as after,
    ):
        (finding,) = check_index_files(after, ["c"], repair=False)
        assert finding.state == "wrong"
        assert finding.detail == "3 chunks missing; run: ragstone reindex --collection c"
        after.rebuild("c")
        assert list_states(after, repair=False) == ["ok"]
        assert set(find_texts(restored, after, "wind")) == {TEXTS[0], TEXTS[2]}


def test_the_doctor_compares_content_and_not_counts(
    catalog: SqlCatalog, index: QdrantIndex
) -> None:
    assert list_states(index, repair=False) == ["ok"]
    other = make_document("b", ["Quite another text."], seed=7)
    points, build = index._points, ProgressStore(catalog, index._points.name).read("c")
    assert build is not None
    (first, *_) = index._prepare_chunks([range(1, 2)])
    swapped = replace(first, vector=other.vectors[0])
    points.write("c", build.build, [swapped])  # the same number of points as before
    assert index.counts("c").dense == 3
    (finding,) = check_index_files(index, ["c"], repair=False)
    assert (finding.state, finding.detail.partition(";")[0]) == ("wrong", "1 chunks other content")
    points.write("c", build.build, [replace(first, counts=Counter({5: 1}))])
    assert list_states(index, repair=False) == ["wrong"]
    assert list_states(index, repair=True) == ["repaired"]
    assert list_states(index, repair=False) == ["ok"]


@pytest.mark.parametrize("repair", [True, False])
def test_uploads_and_deletions_during_the_check_are_no_damage(
    catalog: SqlCatalog, index: QdrantIndex, qdrant_url: str, prefix: str, repair: bool
) -> None:
    catalog.add([make_document("b", ["Fog."]), make_document("d", ["Ice."])], embedder=EMBEDDER)
    index.refresh("c")
    before = ProgressStore(catalog, index._points.name).read("c")
    assert before is not None
    numbers = iter(range(100))
    with closing(open_index(catalog, qdrant_url, prefix)) as writer:

        def go_on() -> None:
            number = next(numbers)
            catalog.add([make_document(f"x{number}", ["Rain."])], embedder=EMBEDDER)
            if number == 0:
                catalog.delete("c-b-1")
                writer.refresh("c")
            catalog.add([make_document(f"y{number}", ["Not indexed yet."])], embedder=EMBEDDER)

        (said,) = check_index_files(index, ["c"], repair=repair, pause=go_on)
    assert (said.state, said.detail) == ("ok", "terms and vectors of every chunk match the catalog")
    after = ProgressStore(catalog, index._points.name).read("c")
    assert after is not None
    assert after.build == before.build, "it was not written again"


def test_a_chunk_that_only_the_server_has_is_found(catalog: SqlCatalog, index: QdrantIndex) -> None:
    build = ProgressStore(catalog, index._points.name).read("c")
    assert build is not None
    (first, *_) = index._prepare_chunks([range(1, 2)])
    index._points.write("c", build.build, [replace(first, chunk=replace(first.chunk, key=77))])
    (said,) = check_index_files(index, ["c"], repair=False)
    assert said.detail.startswith("1 chunks on the server only;")
    assert list_states(index, repair=True) == ["repaired"]
    assert list_states(index, repair=False) == ["ok"]


def test_an_index_that_the_server_lost_is_an_error_until_it_is_rebuilt(
    catalog: SqlCatalog, index: QdrantIndex, qdrant_url: str, prefix: str
) -> None:
    index._points._nodes.write("DELETE", f"/collections/{index._points.name}")
    with closing(open_index(catalog, qdrant_url, prefix)) as reader:
        with pytest.raises(StoreError, match="ragstone reindex --collection c"):
            find_texts(catalog, reader, "wind")
        reader.rebuild("c")
        assert len(find_texts(catalog, reader, "wind")) == 2


def test_neither_shards_nor_the_order_of_ingestion_change_a_score(
    tmp_path: Path, qdrant_url: str, prefix: str
) -> None:
    texts = [" ".join(["wind"] * (at % 4) + ["ridge"] * (at % 7) + ["x"] * at) for at in range(40)]
    rankings = []
    for shards, order in ((1, texts), (3, texts), (3, texts[::-1])):
        folder = tmp_path / f"{shards}-{order[0][:3]}"
        folder.mkdir()
        with (
            closing(SqlCatalog.in_directory(folder)) as catalog,
            closing(open_index(catalog, qdrant_url, f"{prefix}{shards}", shards)) as index,
        ):
            for at, text in enumerate(order):
                vectors = make_unit_vectors(1, seed=at)
                new = make_document(f"d{texts.index(text):02}", [text], vectors=vectors)
                catalog.add([new], embedder=EMBEDDER)
                if at % 10 == 0:
                    index.refresh("c")
            hits = index.search_keyword("c", "wind ridge", limit=100, k1=1.2, b=0.75)
            names = catalog.chunks([hit.key for hit in hits])
            scores = {names[hit.key].document_name: round(hit.score, 4) for hit in hits}
            rankings.append(scores)
    assert rankings[0] == rankings[1] == rankings[2]
    assert len(rankings[0]) > 30


def test_what_is_deleted_leaves_nothing_behind(catalog: SqlCatalog, index: QdrantIndex) -> None:
    catalog.delete("c-a-1")
    index.refresh("c")
    assert index.counts("c").dense == 0
    assert find_texts(catalog, index, "wind") == []
    with catalog.read_transaction() as connection:
        assert connection.scalar(select(func.count()).select_from(index_terms)) == 0
    progress = ProgressStore(catalog, index._points.name).read("c")
    assert progress is not None
    assert (progress.chunk_count, progress.total_length) == (0, 0)


def test_points_of_a_killed_writer_are_counted_once(
    catalog: SqlCatalog, index: QdrantIndex
) -> None:
    catalog.add([make_document("b", ["The wind turns."])], embedder=EMBEDDER)
    change = catalog.changes("c", after=0, limit=9)[-1]
    index._write_chunks("c", index._known["c"].build, [change.keys])  # killed before the counts
    index.refresh("c")
    progress = ProgressStore(catalog, index._points.name).read("c")
    assert progress is not None
    assert progress.chunk_count == index.counts("c").dense == 4


@pytest.fixture
def frozen_url() -> Iterator[str]:
    """A server that accepts and never replies, like a process that was stopped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


REFUSING_URL = "http://127.0.0.1:9"


def count_failures(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """Count the questions that each node did not answer, by its address."""
    named = "the Qdrant node %s failed: %s"
    return Counter(str(one.args[0]) for one in caplog.records if one.msg == named and one.args)  # type: ignore[index]


@pytest.mark.parametrize("kind", ["refuses", "is frozen"])
def test_the_next_node_takes_over_when_one_is_away(
    catalog: SqlCatalog,
    index: QdrantIndex,
    qdrant_url: str,
    prefix: str,
    frozen_url: str,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = REFUSING_URL if kind == "refuses" else frozen_url
    # Both nodes have half of the time limit: the frozen one costs it once, the other needs little.
    with closing(open_index(catalog, f"{bad},{qdrant_url}", prefix, timeout_s=10)) as reader:
        for _ in range(3):
            assert len(find_texts(catalog, reader, "wind")) == 2
    # Then the node is left out: while another answers, only a probe in the background asks it.
    assert count_failures(caplog) == {bad: 1}


def test_when_all_nodes_are_away_the_error_comes_soon_and_names_none(
    catalog: SqlCatalog,
    index: QdrantIndex,
    prefix: str,
    frozen_url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A failure is remembered for a second; on a slow machine that is over before the next question.
    monkeypatch.setattr(qdrant_nodes, "_FAIL_FAST_S", LONG_S)
    monkeypatch.setattr(qdrant_nodes, "_LEAVE_OUT_S", LONG_S)
    urls = f"{REFUSING_URL},{frozen_url}"
    with closing(open_index(catalog, urls, prefix, timeout_s=1)) as reader:
        for _ in range(5):
            with pytest.raises(StoreUnavailableError) as caught:
                find_texts(catalog, reader, "wind")
            assert "127.0.0.1" not in str(caught.value)
    # Only the first question waited for them.
    assert count_failures(caplog) == {REFUSING_URL: 1, frozen_url: 1}
