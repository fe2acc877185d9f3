"""Test history, sessions and collections on SQLite and PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.history import History
from ragstone.catalog.journal import JournalWriter, build_entry
from ragstone.catalog.schema import consents, evidence, feedback, queries, turns
from ragstone.catalog.schema import sessions as sessions_table
from ragstone.errors import InputError, NotFoundError
from ragstone.filters import HistoryFilter
from ragstone.protocols import Catalog
from ragstone.query.conversation import ConsentedSessions
from ragstone.settings import JournalSettings
from ragstone.testing.conformance import EMBEDDER, make_document
from ragstone.types import Answer, Chunk, Citation, Turn

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

    def test_ratings_are_replaced_counted_and_gone_with_their_query(
        self, catalog: Catalog, history: History
    ) -> None:
        for query_id, owner in (("1", "alice"), ("2", "alice"), ("3", "bob")):
            catalog.record(answer(query_id), query_log="full", owner=owner, session_id=owner)
        history.feedback.save("1", "alice", "down", None, "Too short.")
        history.feedback.save("1", "alice", "up", 5, "")
        history.feedback.save("2", "alice", None, 2, "Wrong.")
        history.feedback.save("3", "root", "down", None, "")
        assert history.feedback.find("1", "alice").rating == 5
        listed = history.feedback.list_rated(HistoryFilter(), None, skip=0, limit=9)
        assert [(one["query_id"], one["owner"]) for one in listed] == [
            ("3", "root"), ("2", "alice"), ("1", "alice"),
        ]  # fmt: skip
        assert history.feedback.count(HistoryFilter(owner="alice"), "alice") == 2
        assert history.analytics(HistoryFilter())["feedback"] == {
            "count": 3, "up": 1, "down": 1, "comments": 1, "mean_rating": 3.5,
        }  # fmt: skip
        history.delete_query("1")
        history.delete_queries(HistoryFilter(owner="bob"))
        left = history.feedback.list_rated(HistoryFilter(), None, skip=0, limit=9)
        assert [one["query_id"] for one in left] == ["2"]
        history.delete_owner("alice")
        with catalog.read_transaction() as connection:
            assert connection.execute(select(feedback)).first() is None

    def test_what_is_not_stored_cannot_be_rated(self, catalog: Catalog, history: History) -> None:
        with pytest.raises(NotFoundError):
            history.feedback.save("none", "alice", "up", None, "")
        catalog.record(answer("1"), query_log="full", owner="alice")
        for vote, rating, comment in (
            (None, None, " "), ("sideways", None, ""), ("up", 6, ""), ("up", None, "x" * 4001),
        ):  # fmt: skip
            with pytest.raises(InputError):
                history.feedback.save("1", "alice", vote, rating, comment)  # type: ignore[arg-type]
        quiet = History(catalog, JournalSettings(query_log="metadata"))
        with pytest.raises(InputError, match="comment is text"):
            quiet.feedback.save("1", "alice", "up", None, "Good.")
        assert quiet.feedback.save("1", "alice", "up", None, "").vote == "up"
        off = History(catalog, JournalSettings(query_log="off"))
        with pytest.raises(InputError, match="QUERY_LOG=off"):
            off.feedback.save("1", "alice", "up", None, "")

    def test_a_rated_answer_is_a_question_of_an_evaluation(
        self, catalog: Catalog, history: History
    ) -> None:
        catalog.add([make_document("a", ["The gate is green."])], embedder=EMBEDDER)
        (document,) = catalog.documents("c")
        span = {"start": 0, "end": 18, "snippet": "The gate is green."}
        cited = Citation(1, document.id, document.name, None, "a:0", relevance_score=1.0, **span)  # type: ignore[arg-type]
        gone = replace(cited, document_id="gone", document_name="gone.md", snippet="It was red.")
        good = replace(answer("1"), text="Green. [Source 1]", citations=(cited, gone))
        catalog.record(good, query_log="full", owner="alice", session_id="s")
        followed = replace(turn("Why so?"), query_id="1", searched_as="Why is the gate green?")
        history.sessions.add("alice", "s", "c", followed, kept_turns=9)
        catalog.record(replace(answer("2"), question="Who?", status="abstained"), query_log="full")
        catalog.record(replace(answer("3"), question="When?"), query_log="full")
        catalog.record(replace(answer("4"), question="when? "), query_log="full")
        for query_id, vote in (("1", "up"), ("2", "up"), ("3", "up"), ("4", "down")):
            history.feedback.save(query_id, "alice", vote, None, "")  # type: ignore[arg-type]
        lines = {one["id"]: one for one in history.feedback.list_questions(HistoryFilter(), None)}
        assert lines["1"] == {
            "id": "1", "question": "Why is the gate green?", "vote": "up", "answers": ["Green."],
            "documents": [document.name], "evidence": ["The gate is green."],
        }  # fmt: skip
        assert lines["2"]["answerable"] is False
        assert lines["4"] == {
            "id": "4", "question": "when? ", "vote": "down", "rejected_answer": "So.",
        }  # fmt: skip
        assert "3" not in lines, "the same question was rated again"
        catalog.record(answer("5", "d"), query_log="full")
        history.feedback.save("5", "alice", "up", None, "")
        with pytest.raises(InputError, match="2 collections: c, d"):
            history.feedback.list_questions(HistoryFilter(), None)

    async def test_nothing_is_stored_before_an_owner_agrees_nor_after(
        self, catalog: Catalog
    ) -> None:
        history = History(catalog, JournalSettings(require_consent=True, retention_days=30))
        writer = JournalWriter(catalog, history.consents.may_store)
        sessions = ConsentedSessions(history.sessions, history.consents, catalog)

        async def store() -> bool:
            for owner in ("alice", "bob"):
                entry = build_entry(answer(uuid4().hex), query_log="full", owner=owner)
                await writer.write(entry)
            await writer.finish()
            return sessions.add("alice", "s", "c", turn("One?"), kept_turns=9)

        def count() -> list[int]:
            with catalog.read_transaction() as connection:
                found = (queries, evidence, sessions_table, turns, consents)
                return [
                    connection.scalar(select(func.count()).select_from(one)) or 0 for one in found
                ]

        assert not await store()
        assert count() == [0, 0, 0, 0, 0]
        assert history.consents.agree("alice") == history.consents.agree("alice")
        assert await store()
        assert count() == [1, 1, 1, 1, 1]
        assert sessions.find("alice", "s") is not None
        assert history.withdraw_consent("alice") == (1, 1)
        assert sessions.find("alice", "s") is None
        assert not await store()
        assert count() == [0, 0, 0, 0, 0]

    def test_a_consent_covers_what_was_shown_and_no_more(self, catalog: Catalog) -> None:
        def has_agreed(**options: object) -> bool:
            settings = JournalSettings(require_consent=True, **options)  # type: ignore[arg-type]
            return History(catalog, settings).consents.find("alice") is not None

        settings = JournalSettings(require_consent=True, query_log="metadata", retention_days=30)
        History(catalog, settings).consents.agree("alice")
        assert has_agreed(query_log="metadata", retention_days=30)
        assert has_agreed(query_log="metadata", retention_days=7)
        assert not has_agreed(query_log="full", retention_days=30)
        assert not has_agreed(query_log="metadata", retention_days=0)
        assert not has_agreed(query_log="metadata", retention_days=60)
        for options in (JournalSettings(), JournalSettings(require_consent=True, query_log="off")):
            for change in ("agree", "withdraw"):
                history = History(catalog, options)
                call = history.consents.agree if change == "agree" else history.withdraw_consent
                with pytest.raises(InputError, match="does not ask"):
                    call("alice")

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
