"""Open the parts of an engine, each at first use, as the settings say."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, cast

from ragstone.catalog import journal
from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog, refuse_other_embedder
from ragstone.catalog.generations import Generation, GenerationCatalog, read_generations
from ragstone.catalog.history import History
from ragstone.catalog.journal import JournalWriter
from ragstone.catalog.originals import Originals
from ragstone.catalog.uploads import SqlIntakeRecords
from ragstone.catalog.vectors import OtherEmbedderError
from ragstone.derived import FILE_NAME, DerivedStore
from ragstone.errors import InputError, ProviderError
from ragstone.fallback import Fallbacks
from ragstone.files import create_data_directory
from ragstone.ingest.intake import Intake
from ragstone.models.cache import CachedEmbedder, QuestionBatcher, add_vector_cache
from ragstone.models.embedder import OnnxEmbedder
from ragstone.plugins import IndexContext, PartContext, find_part
from ragstone.protocols import Catalog, Embedder, Index, Moderator, Provider
from ragstone.providers.choices import ModelChoice, apply_choice, choose_model, list_choices
from ragstone.providers.retry import HealthReport, ProviderHealth
from ragstone.query.answer import Pipeline
from ragstone.query.build import (
    GivenParts,
    WrappedPipeline,
    build_chosen_pipeline,
    build_moderator,
    build_pipeline,
    wrap_pipeline,
)
from ragstone.query.cache import delete_shared_answers
from ragstone.query.conversation import (
    ConsentedSessions,
    Conversation,
    Sessions,
    VolatileSessions,
)
from ragstone.query.middleware import RecordHistory, UseConversation
from ragstone.settings import Settings, load_settings
from ragstone.settings.services import EmbedSettings
from ragstone.threads import opened_once
from ragstone.trace import QueryRun
from ragstone.types import Answer

log = logging.getLogger(__name__)

# The parts that are built again when the settings of the query pipeline change.
_FROM_QUERY_SETTINGS = ("settings", "provider", "_base_context", "_context", "pipeline", "wrapped")


class EngineParts:
    """Hold the parts of an engine. A part that was not given is built at first use."""

    def __init__(self, settings: Settings | str | PathLike[str] | None, given: GivenParts) -> None:
        if settings == "":  # it would be the current folder, by mistake
            raise InputError(
                "The path of the data directory is empty.",
                hint="Name a folder: Engine('data'). Without a path the settings name it.",
            )
        self._given_settings = settings
        self._given = given
        self._retired: list[Provider] = []
        self._chosen: dict[str, tuple[Provider, WrappedPipeline]] = {}
        self._siblings: dict[str, Any] = {}
        self.fallbacks = Fallbacks()
        self.answers_secret = b""
        """Shared by the processes of one server, which then share their answers."""
        self.opening = threading.RLock()

    @opened_once
    def settings(self) -> Settings:
        given = self._given_settings
        if given is None or isinstance(given, Settings):
            return given or load_settings().settings
        return load_settings(flags={"data.directory": Path(given)}).settings

    @opened_once
    def embedder(self) -> Embedder:
        built: Embedder = self._given.embedder or find_part("embedder", self.settings.embed.name)(
            self.settings
        )
        return built

    @opened_once
    def catalog(self) -> Catalog:
        return self._given.catalog or open_catalog(self.settings, self._directory)

    @opened_once
    def index(self) -> Index:
        if self._given.index is not None:
            return self._given.index
        catalog: Catalog = self.catalog
        if isinstance(catalog, SqlCatalog):
            catalog = cast("Catalog", GenerationCatalog(catalog, self.embedder.name))
        context = IndexContext(self.settings, catalog, self.embedder)
        built: Index = find_part("index", self.settings.index.kind)(context)
        return built

    def for_collection(self, collection: str) -> Self:
        """Return the engine whose embedder a collection is searched with: usually this one.

        A collection that was switched to another embedder (`ragstone reembed`) has a second one,
        which shares everything but the embedder, the index and what is built from them.
        """
        name = self.catalog.embedder_of(collection)
        if name in (None, self.embedder.name):
            return self
        with self.opening:
            known: Self | None = self._siblings.get(name)
        if known is not None:
            return known
        return self.for_generation(read_generations(self.catalog, collection).active)

    def for_generation(self, generation: Generation) -> Self:
        """Return the engine of a generation's embedder."""
        name = generation.embedder
        if name == self.embedder.name:
            return self
        with self.opening:
            if name not in self._siblings:
                if generation.settings is None:
                    refuse_other_embedder(self.catalog, generation.collection, self.embedder.name)
                settings = apply_embed_settings(self.settings, generation.settings or {})
                self._siblings[name] = self._open_sibling(settings)
            sibling: Self = self._siblings[name]
        return sibling

    def _open_sibling(self, settings: Settings) -> Self:
        """Make an engine with other settings that shares all parts which do not depend on them."""
        raise NotImplementedError

    def share_parts(self, main: EngineParts) -> None:
        """Use the parts of another engine, which closes them; not its embedder and index."""
        names = ["catalog", "moderator", "history", "reading_embedder", "answers_secret"]
        names += ["fallbacks", "_derived", "_sessions", "_directory", "_journal"]
        if main.provider.name != "extractive":  # that one is fitted to the scores of its embedder
            names.append("provider")
        for name in names:
            setattr(self, name, getattr(main, name))

    def list_indexes(self) -> Iterator[tuple[str, Index]]:
        """Yield every collection that can be searched, with its index."""
        for name in self.catalog.collections():
            with suppress(OtherEmbedderError):
                yield name, self.for_collection(name).index

    def find_search_parts(self, collection: str) -> tuple[Embedder, Index]:
        """Return the embedder and the index that a collection is searched with."""
        engine = self.for_collection(collection)
        return engine.embedder, engine.index

    def find_other_index(self, collection: str) -> Index | None:
        """Return the index of the generation that is not searched, if there is one."""
        if not isinstance(self.catalog, SqlCatalog):
            return None
        other = read_generations(self.catalog, collection).other
        return None if other is None else self.for_generation(other).index

    @opened_once
    def intake(self) -> Intake:
        if self._given.splitter is None:  # a wrong name is an error now, not at the first file
            find_part("splitter", self.settings.ingest.splitter)
        return Intake(
            self.catalog,
            self.index,
            self.embedder,
            self.settings.ingest,
            Originals.from_settings(self._directory, self.settings.originals),
            self._given.splitter,
            self._derived,
            self.find_search_parts,
            self.find_other_index,
        )

    @property
    def records(self) -> SqlIntakeRecords:
        return self.intake.records

    @property
    def collections(self) -> SqlCollections:
        return self.intake.collections

    @property
    def originals(self) -> Originals:
        return self.intake.originals

    @opened_once
    def history(self) -> History:
        return History(self.catalog, self.settings.journal, self._forget_answers)

    def _forget_answers(self) -> None:
        delete_shared_answers(self._derived, self.catalog.collections())

    @opened_once
    def provider(self) -> Provider:
        built: Provider = self._given.provider or find_part(
            "provider", self.settings.provider.name
        )(self._base_context)
        return built

    @property
    def model_choices(self) -> tuple[ModelChoice, ...]:
        """Return the models that a conversation may choose; the first one is the default."""
        given = self._given.provider
        own = (ModelChoice(given.name),) if given is not None else ()
        return tuple(dict.fromkeys((*own, *list_choices(self.settings))))

    @property
    def provider_health(self) -> HealthReport:
        """Return how the last call to the provider went."""
        health = getattr(self.provider, "health", None)
        if isinstance(health, ProviderHealth):
            return health.report
        return HealthReport("ok" if self.provider.name == "extractive" else "unknown")

    async def probe_provider(self) -> HealthReport:
        """Ask the provider for one word, log a failure, and return how it went."""
        probe = getattr(self.provider, "probe", None)
        if probe is None:
            return self.provider_health
        try:
            await probe()
        except ProviderError as error:
            log.warning(
                "provider cannot answer",
                extra={
                    "provider": self.provider.name,
                    "model": self.provider.model,
                    "reason": error.reason,
                    "explanation": error.summary,
                    "hint": error.hint,
                },
            )
        return self.provider_health

    @opened_once
    def moderator(self) -> Moderator | None:
        return self._given.moderator or build_moderator(self._context)

    @property
    def conversation(self) -> Conversation:
        return self.wrapped.conversation.conversation

    @opened_once
    def _directory(self) -> Path:
        return create_data_directory(self.settings.data.directory)

    @opened_once
    def _derived(self) -> DerivedStore:
        return DerivedStore(self._directory / FILE_NAME)

    def share_derived(self, other: EngineParts) -> None:
        """Use the derived values through the file that another engine has open, and closes."""
        self._derived = other._derived

    @opened_once
    def _vectors(self) -> CachedEmbedder:
        return add_vector_cache(self.embedder, self._derived)

    @opened_once
    def reading_embedder(self) -> CachedEmbedder:
        """Return the embedder that compares sentences when answers are chosen and checked.

        Their weights were fitted to the shipped embedder, whichever one searches.
        """
        if self._given.embedder is None and not self.settings.embed.uses_shipped:
            return add_vector_cache(OnnxEmbedder(), self._derived)
        return self._vectors

    @opened_once
    def _base_context(self) -> PartContext:
        """Return what the provider may be built from."""
        return PartContext(
            self.settings,
            self._vectors,
            self.index,
            self.catalog,
            self.fallbacks,
            QuestionBatcher(self._vectors),
            reader=self.reading_embedder,
            derived=self._derived,
        )

    @opened_once
    def _context(self) -> PartContext:
        """Return what every other part may be built from."""
        base, provider = self._base_context, self.provider
        is_quoting = provider.name == "extractive"
        quoting = provider if is_quoting else find_part("provider", "extractive")(base)
        return replace(base, provider=provider, quoting=quoting)

    @opened_once
    def pipeline(self) -> Pipeline:
        return build_pipeline(self._context, self._given)

    @opened_once
    def _sessions(self) -> Sessions:
        may_store = self.settings.journal.query_log == "full"
        sessions: Sessions = self.history.sessions if may_store else VolatileSessions()
        if self.history.consents.is_required:
            sessions = ConsentedSessions(sessions, self.history.consents, self.catalog)
        return sessions

    @opened_once
    def wrapped(self) -> WrappedPipeline:
        conversation = Conversation(
            self._sessions,
            self.embedder,
            self.settings.memory,
            self._context.chat,
            self.fallbacks,
        )
        return wrap_pipeline(
            self.pipeline,
            self._context,
            self.moderator,
            RecordHistory(self._record),
            UseConversation(conversation),
            self._given,
            self.answers_secret,
        )

    @property
    def chosen_providers(self) -> list[Provider]:
        return [*self._retired, *(provider for provider, _ in self._chosen.values())]

    def apply_settings(self, settings: Settings) -> None:
        """Use other settings from the next question on.

        What holds documents stays open: only the sections of the query pipeline may differ.
        """
        with self.opening:
            # Questions that are being answered still use these; they are closed with the engine.
            self._retired = self.chosen_providers
            self._chosen = {}
            opened = self.__dict__
            if "provider" in opened and self._given.provider is None:
                self._retired.append(opened["provider"])
            self._given_settings = settings
            self.answers_secret = b""  # answers under the old settings are not shared any more
            for name in _FROM_QUERY_SETTINGS:
                opened.pop(name, None)
            for name, old in self._siblings.items():
                self._retired += old.chosen_providers
                again = apply_embed_settings(settings, get_embed_settings(old.settings))
                sibling = self._siblings[name] = self._open_sibling(again)
                # Nothing is opened here: a service that does not answer must hold nobody up.
                for part in ("embedder", "index"):
                    if part in vars(old):
                        setattr(sibling, part, vars(old)[part])

    def find_wrapped(self, name: str | None) -> WrappedPipeline:
        """Return the pipeline in which the chosen model writes; each is built once."""
        if not name or name == self.model_choices[0].name:
            return self.wrapped
        choice = choose_model(self.model_choices, name)
        with self.opening:
            if choice.name not in self._chosen:
                self._chosen[choice.name] = self._build_chosen(choice)
            return self._chosen[choice.name][1]

    def _build_chosen(self, choice: ModelChoice) -> tuple[Provider, WrappedPipeline]:
        main, wrapped = self._context, self.wrapped
        base = replace(self._base_context, settings=apply_choice(self.settings, choice))
        provider: Provider = find_part("provider", choice.provider)(base)
        quoting = provider if provider.name == "extractive" else main.quoting
        context = replace(main, settings=base.settings, provider=provider, quoting=quoting)
        given = replace(self._given, provider=None)
        built = wrap_pipeline(
            build_chosen_pipeline(context, given, self.pipeline),
            context,
            self.moderator,
            wrapped.history,
            wrapped.conversation,
            given,
        )
        return provider, built

    @opened_once
    def _journal(self) -> JournalWriter:
        consents = self.history.consents
        return JournalWriter(self.catalog, consents.may_store if consents.is_required else None)

    async def _record(self, answer: Answer, run: QueryRun, upload_id: str | None) -> None:
        """Write an answer into the journal, as far as QUERY_LOG allows."""
        query_log = self.settings.journal.query_log
        if query_log != "off":
            await self._journal.write(
                journal.build_entry(
                    answer,
                    query_log=query_log,
                    owner=run.owner,
                    session_id=run.session_id,
                    upload_id=upload_id,
                )
            )


# What builds an embedder again, in this process and in others. Keys are never stored.
_EMBED_SETTINGS = ("name", "model", "base_url", "dimension", "batch")


def get_embed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that build the embedder, without keys."""
    return {name: getattr(settings.embed, name) for name in _EMBED_SETTINGS}


def apply_embed_settings(settings: Settings, embed: Mapping[str, Any]) -> Settings:
    """Return settings with another embedder; its key is the one of this process."""
    values = {name: value for name, value in embed.items() if name in _EMBED_SETTINGS}
    if values.get("name") == settings.embed.name:
        values["api_key"] = settings.embed.api_key
    return settings.model_copy(update={"embed": EmbedSettings(**values)})


def open_catalog(settings: Settings, directory: Path) -> Catalog:
    url = settings.data.database_url.get_secret_value()
    return SqlCatalog(Database.at_url(url) if url else Database.in_directory(directory))
