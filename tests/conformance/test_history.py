"""Test history, sessions and collections on SQLite and PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.history import History
from ragstone.catalog.schema import evidence, queries
from ragstone.errors import InputError, NotFoundError
from ragstone.filters import HistoryFilter
from ragstone.protocols import Catalog
from ragstone.settings import JournalSettings
from ragstone.testing.conformance import EMBEDDER, make_document
from ragstone.types import Answer, Chunk, Turn

from .test_catalogs import empty_database


def answer(query_id: str, collection: str = "c") -> Answer:
    return Answer(
        query_id, "Why so?", collection, "So.", "answered", provider="p", started_at=time.time()
    )


def turn(question: str) -> Turn:
    return Turn(0, "q", question, "So.", "answered", "question", time.time())


class HistoryConformance:
    """Subclasses add a `catalog` fixture: an empty one."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        raise NotImplementedError

    @pytest.fixture
    def history(self, catalog: Catalog) -> History:
        return History(catalog, JournalSettings())

    def test_queries_are_found_by_what_is_wanted_of_them(
        self, catalog: Catalog, history: History
    ) -> None:
        catalog.record(answer("1"), query_log="full", owner="alice", session_id="s")
        catalog.record(answer("2", "d"), query_log="full", owner="bob", upload_id="u")

        def found(**wanted: object) -> list[str]:
            entries = history.queries(wanted=HistoryFilter(**wanted))  # type: ignore[arg-type]
            return [entry["query_id"] for entry in entries]

        assert found(owner="alice") == found(session_id="s") == found(collections=["c"]) == ["1"]
        assert found(owner="bob") == found(upload_id="u") == ["2"]
        assert found(collections=[]) == found(since=time.time() + 9) == []
        assert history.analytics(HistoryFilter())["queries"]["total"] == 2
        assert sorted(history.queried_collections(None)) == ["c", "d"]
        assert history.delete_queries(HistoryFilter(owner="bob")) == 1
        assert found() == ["1"]

    def test_what_an_answer_rests_on_is_stored_once_and_goes_with_its_last_query(
        self, catalog: Catalog, history: History
    ) -> None:
        for number, owner in enumerate(("alice", "bob", "bob", "carol")):
            session = "s" if owner == "carol" else None
            catalog.record(answer(str(number)), query_log="full", owner=owner, session_id=session)
        history.sessions.add("carol", "s", "c", turn("One?"), kept_turns=9)
        whole = {"citations", "used_chunks", "confidence", "provider", "trace"}
        assert whole <= set(history.query("3"))
        assert "waterfall" in history.query("3")["trace"]

        def stored() -> int:
            with catalog.read_transaction() as connection:
                return int(connection.scalar(select(func.count()).select_from(evidence)))

        assert stored() == 1
        history.delete_query("0")
        history.delete_queries(HistoryFilter(owner="bob"))
        assert (stored(), history.query("3")["confidence"]) == (1, answer("3").confidence)
        history.delete_session("carol", "s")
        assert stored() == 0

    def test_a_line_from_before_0007_holds_everything_itself(
        self, catalog: Catalog, history: History
    ) -> None:
        record = {"citations": [], "confidence": 0.5, "trace": {"spans": [], "waterfall": {"a": 1}}}
        old = {"id": "old", "collection": "c", "created_at": 1.0, "status": "answered"}
        with catalog.write_transaction() as connection:
            connection.execute(queries.insert().values(**old, record=record))
        assert history.query("old")["trace"]["waterfall"] == {"a": 1}
        history.delete_query("old")
        assert history.queries() == []

    def test_sessions_begin_grow_and_end(self, history: History) -> None:
        sessions = history.sessions
        for owner in ("alice", "bob"):
            for question in ("One?", "Two?", "Three?"):
                sessions.add(owner, "s", "c", turn(question), kept_turns=2)
        session = history.session("alice", "s")
        assert [(one.position, one.question) for one in session.turns] == [
            (1, "Two?"), (2, "Three?"),
        ]  # fmt: skip
        sessions.summarise("alice", "s", "They spoke.", before=2)
        assert history.session("alice", "s").summarised == 2
        assert [one.turn_count for one in history.list_sessions("alice")] == [2]
        history.delete_session("alice", "s")
        with pytest.raises(NotFoundError):
            history.session("alice", "s")
        assert len(history.session("bob", "s").turns) == 2
        sessions.delete_expired(before=time.time() + 1)
        assert history.list_sessions("bob") == []

    def test_collections_are_made_counted_and_removed(
        self, catalog: Catalog, history: History
    ) -> None:
        collections = SqlCollections(catalog)
        collections.create("empty", embedder=EMBEDDER)
        with pytest.raises(InputError):
            collections.create("empty", embedder=EMBEDDER)
        catalog.add([make_document("a", ["One.", "Two."])], embedder=EMBEDDER)
        counts = [(one.name, one.documents, one.chunks) for one in collections.list_all()]
        assert counts == [("c", 1, 2), ("empty", 0, 0)]
        catalog.record(answer("1"), query_log="full")
        history.sessions.add("alice", "s", "c", turn("One?"), kept_turns=9)
        collections.delete("c")
        with catalog.read_transaction() as connection:
            assert connection.execute(select(evidence)).first() is None
        assert [one.name for one in collections.list_all()] == ["empty"]
        assert (history.queries(), history.list_sessions("alice")) == ([], [])
        assert catalog.counts("c").chunks == 0
        assert catalog.changes("c", after=0, limit=9)[-1].kind == "remove"
        with pytest.raises(NotFoundError):
            collections.delete("c")

    def test_headings_come_once(self, catalog: Catalog) -> None:
        made = make_document("a", ["One.", "Two.", "Three."])

        def under(chunk: Chunk, *path: str) -> Chunk:
            return replace(chunk, heading_path=path)

        first, second, third = made.chunks
        chunks = (under(first, "A"), under(second, "A"), under(third, "A", "B"))
        catalog.add([replace(made, chunks=chunks)], embedder=EMBEDDER)
        assert sorted(SqlCollections(catalog).headings("c")) == [("A",), ("A", "B")]


class TestSqlite(HistoryConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        catalog = SqlCatalog.in_directory(tmp_path)
        yield catalog
        catalog.close()


class TestPostgres(HistoryConformance):
    @pytest.fixture
    def catalog(self, postgres_url: str) -> Iterator[Catalog]:
        catalog = SqlCatalog(Database.at_url(empty_database(postgres_url)))
        yield catalog
        catalog.close()
