"""Define all settings, in sections in the order of the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import SecretStr

from ragstone.settings.services import (
    NAMES,
    AnthropicSettings,
    AzureSettings,
    EmbedSettings,
    GoogleSettings,
    IndexSettings,
    ModerateSettings,
    ObserveSettings,
    OllamaSettings,
    OpenAISettings,
    OriginalsSettings,
    ProviderSettings,
    Section,
    ServerSettings,
    ServiceSettings,
    setting,
)
from ragstone.types import RetrievalMethod

PRESETS = ("minimal", "classic", "balanced", "careful", "multilingual")


class DataSettings(Section):
    directory: Path = setting(
        Path(platformdirs.user_data_dir("ragstone", appauthor=False)),
        "Directory of the documents, the index and the journal.",
        "RAGSTONE_DATA",
    )
    models: Path = setting(
        Path(platformdirs.user_data_dir("ragstone", appauthor=False), "models"),
        "Directory of the models that `ragstone models pull` downloads. All data directories of a "
        "user share it.",
    )
    database_url: SecretStr = setting(
        SecretStr(""),
        "PostgreSQL database for the catalog. Empty: SQLite in the data directory.",
        "RAGSTONE_DATABASE_URL",
    )
    answer_cache: int = setting(
        10_000,
        "Maximum cached answers. A change of the collection clears them. 0: no cache.",
        ge=0,
        le=1_000_000,
    )
    answer_cache_mb: float = setting(
        128.0, "Maximum memory of the answer cache per process.", ge=0, le=1_000_000
    )
    cache_model_answers: bool = setting(
        False,
        "Also cache what a model writes at a temperature above 0. false: ask it again each time.",
    )
    lock_timeout_s: float = setting(
        10.0, "Maximum wait of a process for the writer lock.", ge=0, le=3600
    )


class IngestSettings(Section):
    source: str = setting(
        "", "Name of the machine or share whose folders are read; its paths are kept apart."
    )
    splitter: str = setting("sentences", "Splitter that cuts documents into chunks.")
    max_file_mb: float = setting(200.0, "Maximum size of a file.", gt=0, le=10_000)
    chunk_tokens: int = setting(
        200, "Maximum tokens of a chunk, including its heading path.", ge=32, le=8192
    )
    overlap_tokens: int = setting(
        32,
        "Maximum tokens that a chunk repeats from the previous one, in whole sentences.",
        ge=0,
        le=4096,
    )
    chunking: Literal["structure", "sentence_window", "parent_child"] = setting(
        "structure",
        "Unit of search and of reading. structure: the same chunk. sentence_window: a sentence, "
        "read with its neighbours. parent_child: a chunk, read with its whole passage.",
    )
    window_sentences: int = setting(
        3, "For sentence_window: number of neighbour sentences on each side.", ge=0, le=50
    )
    parent_tokens: int = setting(
        600, "For parent_child: maximum tokens of the passage.", ge=32, le=65_536
    )
    batch_chunks: int = setting(256, "Number of chunks per commit.", ge=1, le=8192)
    workers: int = setting(
        0, "Number of processes that read files. 0: one per CPU core.", ge=0, le=256
    )
    embed_threads: int = setting(
        0, "Number of threads that embed chunks. 0: one per CPU core.", ge=0, le=256
    )
    niceness: int = setting(
        5, "Niceness (lower priority) of embedding during ingestion.", ge=0, le=19
    )
    timeout_s: float = setting(
        120.0,
        "Maximum processor time to read one document. The limit on elapsed time is ten times this.",
        gt=0,
        le=86_400,
    )
    max_memory_mb: int = setting(1024, "Maximum memory to read one file.", ge=256, le=1_000_000)
    max_pages: int = setting(5000, "Maximum pages of a document.", ge=1, le=1_000_000)
    max_unpacked_mb: int = setting(
        1000, "Maximum unpacked size of a compressed file.", ge=1, le=1_000_000
    )
    max_depth: int = setting(3, "Maximum depth of archives inside archives.", ge=0, le=20)
    max_members: int = setting(20_000, "Maximum files in an archive.", ge=1, le=10_000_000)
    ocr: bool = setting(False, "Read text from images and scanned pages (needs ragstone[ocr]).")
    keep_originals: bool = setting(True, "Store uploaded files for download.")
    uploads: Literal["here", "workers"] = setting(
        "here", "Who reads uploads: the server that received them, or `ragstone worker`."
    )
    lease_s: float = setting(
        30.0,
        "Time after which the upload of a process that was killed or frozen is read by another "
        "one on another machine.",
        ge=1,
        le=3600,
    )
    refresh_s: float = setting(
        30.0, "Interval at which a long run updates the index.", gt=0, le=86_400
    )
    old_version_days: float = setting(
        30.0, "Days to keep replaced versions, for old citations.", ge=0, le=36_500
    )
    watch: Path | None = setting(
        None, "Folder whose new and changed files the server reads by itself."
    )
    watch_collection: str = setting("default", "Collection of the watched folder.")
    watch_s: float = setting(60.0, "Seconds between two scans of the folder.", ge=1, le=86_400)
    watch_prune: bool = setting(
        False, "Remove documents whose files are no longer in the watched folder."
    )


class UnderstandSettings(Section):
    name: str = setting("intent", "Understander that processes the question first.")
    min_chars: int = setting(
        3, "Minimum characters of a question, without surrounding spaces.", ge=1, le=100
    )
    max_chars: int = setting(1000, "Maximum characters of a question.", ge=10, le=100_000)
    max_message_chars: int = setting(
        32_000,
        "Maximum characters of a message in a chat, pasted text included.",
        ge=10,
        le=1_000_000,
    )
    intent_enabled: bool = setting(
        True, "Reply to greetings, thanks and small talk, and understand follow-ups."
    )
    intent_confidence: float = setting(
        0.75,
        "Minimum probability to treat a question as small talk.",
        "INTENT_CONFIDENCE_THRESHOLD",
        "SEMANTIC_CONFIDENCE_THRESHOLD",
        ge=0.5,
        le=1,
    )
    expand: Literal["off", "complex", "always"] = setting(
        "complex", "Questions that a model rewrites and expands before the search."
    )
    variants: int = setting(
        2, "Number of other wordings that a model adds to a question.", ge=0, le=10
    )
    hyde: bool = setting(False, "Also search with a hypothetical answer written by a model.")


class RetrieveSettings(Section):
    enabled: bool = setting(
        True, "Search the documents. false: a plain chat with the model.", "RAG_ENABLED"
    )
    fallback: Literal["abstain", "chat"] = setting(
        "abstain",
        "If nothing is found: abstain without a call, or chat with the model without documents.",
        "RAG_FALLBACK",
    )
    method: RetrievalMethod = setting("hybrid", "Search method.", "RETRIEVAL_METHOD")
    candidates: int = setting(
        50, "Number of hits from each search.", "RETRIEVAL_INITIAL_K", ge=1, le=10_000
    )
    bm25_k1: float = setting(
        1.2, "BM25 parameter k1: saturation of repeated terms.", "BM25_K1", ge=0, le=10
    )
    bm25_b: float = setting(
        0.75, "BM25 parameter b: influence of a chunk's length.", "BM25_B", ge=0, le=1
    )
    fusion: Literal["convex", "rrf"] = setting(
        "convex", "Method that joins the semantic and keyword hits."
    )
    normalisation: Literal["theoretical", "minmax", "zscore"] = setting(
        "theoretical", "Normalisation of the scores before convex fusion."
    )
    dense_weight: float = setting(
        0.75, "Weight of the semantic score in convex fusion.", ge=0, le=1
    )
    foreign_weight: float = setting(
        0.0,
        "Weight of the semantic score for questions in a script unknown to the embedder.",
        ge=0,
        le=1,
    )
    other_language_weight: float = setting(
        0.6,
        "Weight of the semantic score for questions in another language that the embedder does "
        "not read.",
        ge=0,
        le=1,
    )
    crossing_weight: float = setting(
        0.9,
        "Weight of the semantic score when question and documents are in different languages that "
        "the embedder reads.",
        ge=0,
        le=1,
    )
    keyword_boost: float = setting(
        0.3, "Maximum that matching terms add to a similarity, in keyword boosting.", ge=0, le=2
    )
    chunkenizer_url: str = setting(
        "", "URL of an external retrieval service that replaces the search.", "CHUNKENIZER_API_URL"
    )
    chunkenizer_api_key: SecretStr = setting(
        SecretStr(""), "Bearer key for the external retrieval service.", "CHUNKENIZER_API_KEY"
    )
    chunkenizer_timeout_s: float = setting(
        10.0, "Maximum wait for the external retrieval service.", gt=0, le=600
    )
    rrf_k: int = setting(60, "Rank constant k of reciprocal rank fusion.", "RRF_K", ge=1, le=10_000)
    name: str = setting("", "Retriever. Empty: chunkenizer if its URL is set, else hybrid.")

    @property
    def retriever_name(self) -> str:
        return self.name or ("chunkenizer" if self.chunkenizer_url else "hybrid")


class RefineSettings(Section):
    steps: tuple[str, ...] = setting(
        ("filter", "rerank", "deduplicate", "merge", "select", "widen"),
        "Refiners in order. One that is disabled by its own settings is skipped.",
        allowed=NAMES,
    )
    min_similarity: float = setting(
        0.0,
        "Minimum similarity of a hit to the question. 0: keep all.",
        "RAG_MIN_SIMILARITY",
        "RELEVANCE_THRESHOLD",
        ge=0,
        le=1,
    )
    min_chunks: int = setting(
        2,
        "Minimum number of hits that the similarity filter keeps.",
        "RAG_MIN_CHUNKS",
        ge=0,
        le=1000,
    )
    reranker_enabled: bool = setting(
        False, "Score the first hits again with a reranker.", "RAG_RERANKER_ENABLED"
    )
    reranker: str = setting(
        "noop",
        "Reranker, where reranker_enabled is true: reading (shipped), cross_encoder (pulled), llm, "
        "noop, or that of a plug-in.",
        "RAG_RERANKER_TYPE",
    )
    rerank_top_k: int = setting(
        20, "Number of hits that the reranker scores.", "RERANK_TOP_K", ge=1, le=1000
    )
    rerank_weight: float = setting(
        0.2, "Weight of the score of reading or cross_encoder in the combined score.", ge=0, le=1
    )
    duplicate_similarity: float = setting(
        1.0,
        "Similarity from which a hit is a duplicate of a better one. 1: keep all.",
        ge=0.5,
        le=1,
    )
    mmr_lambda: float = setting(
        1.0,
        "Relevance (1) versus diversity (0) in the choice of the final hits.",
        "RAG_MMR_LAMBDA",
        ge=0,
        le=1,
    )
    top_k: int = setting(10, "Number of hits in the prompt.", "RAG_TOP_K", ge=1, le=1000)
    chat_top_k: int = setting(
        5,
        "Number of hits in the prompt of the chat endpoints.",
        "RAG_TOP_K",
        "RETRIEVAL_FINAL_K",
        ge=1,
        le=1000,
    )


class GroundSettings(Section):
    context: str = setting("budget", "Context builder that turns hits into sources.")
    answerer: str = setting("prompt", "Answerer that writes the answer.")
    max_context_tokens: int = setting(
        6000,
        "Maximum tokens of the sources in the prompt.",
        "RAG_MAX_CONTEXT_TOKENS",
        ge=16,
        le=2_000_000,
    )
    max_context_chars: int | None = setting(
        None,
        "Maximum characters of the sources in the prompt, in addition to the token limit.",
        "RAG_MAX_CONTEXT_CHARS",
        ge=64,
        le=10_000_000,
    )
    merge_neighbours: bool = setting(False, "Merge consecutive hits of a document into one source.")
    neighbours: int = setting(
        0, "Number of chunks before and after each hit to add to its source.", ge=0, le=20
    )
    order: Literal["best_first", "edges"] = setting(
        "best_first",
        "Order of the sources in the prompt. edges: the best ones first and last, for models "
        "that overlook the middle.",
    )
    compression_ratio: float = setting(
        1.0,
        "Share of the sources' text to keep, the most relevant sentences first.",
        "COMPRESSION_RATIO",
        ge=0.05,
        le=1,
    )
    temperature: float = setting(
        0.1, "Sampling temperature of the model.", "RAG_TEMPERATURE", ge=0, le=2
    )


class CheckSettings(Section):
    name: str = setting("claims", "Checker of the answer.")
    max_iterations: int = setting(
        2,
        "Maximum further searches if the evidence is poor or the answer is not grounded.",
        "MAX_ITERATIONS",
        ge=0,
        le=10,
    )
    conflict_notice: bool = setting(
        True, "Mention it in the answer if two sources disagree on the question."
    )
    hold_unverified: bool = setting(
        False,
        "Stream only checked sentences, without those that no source supports.",
        "HOLD_UNVERIFIED",
    )
    self_judging: bool = setting(
        False,
        "Let the model that wrote an answer judge the claims that stay doubtful. By default only "
        "another model may.",
        "SELF_JUDGING",
    )


class MemorySettings(Section):
    max_turns: int = setting(
        10, "Maximum turns of a session to send to the model in full.", ge=1, le=1000
    )
    max_tokens: int = setting(
        1500, "Maximum tokens of these turns. Older turns are summarised.", ge=50, le=1_000_000
    )
    summary_tokens: int = setting(300, "Maximum tokens of the summary.", ge=20, le=100_000)
    kept_turns: int = setting(500, "Maximum turns to store per session.", ge=1, le=1_000_000)


class JournalSettings(Section):
    query_log: Literal["off", "metadata", "full"] = setting(
        "full", "What to store of each query.", "QUERY_LOG"
    )
    retention_days: int = setting(
        0,
        "Days until a query or a turn of a session is deleted. 0: never.",
        "RETENTION_DAYS",
        ge=0,
        le=36_500,
    )
    require_consent: bool = setting(
        False,
        "Store nothing that a user asks before the user agrees (`/v1/consent`).",
        "REQUIRE_CONSENT",
    )
    retention_check_s: float = setting(
        3600.0, "Interval at which a server deletes expired queries and turns.", gt=0, le=86_400
    )


class EvaluateSettings(Section):
    directory: Path = setting(
        Path(platformdirs.user_cache_dir("ragstone", appauthor=False), "evaluate"),
        "Directory of embedded datasets and evaluation results.",
    )


class Settings(Section):
    """Hold all settings, one section per part of the pipeline."""

    preset: Literal["minimal", "classic", "balanced", "careful", "multilingual"] = setting(
        "balanced", "Set of default values.", "RAGSTONE_PRESET"
    )
    language: Literal["auto", "en", "de", "zh"] = setting(
        "auto", "Language of the messages of the command line. auto: that of the terminal."
    )
    data: DataSettings = DataSettings()
    originals: OriginalsSettings = OriginalsSettings()
    index: IndexSettings = IndexSettings()
    ingest: IngestSettings = IngestSettings()
    embed: EmbedSettings = EmbedSettings()
    understand: UnderstandSettings = UnderstandSettings()
    retrieve: RetrieveSettings = RetrieveSettings()
    refine: RefineSettings = RefineSettings()
    ground: GroundSettings = GroundSettings()
    check: CheckSettings = CheckSettings()
    provider: ProviderSettings = ProviderSettings()
    openai: OpenAISettings = OpenAISettings()
    azure: AzureSettings = AzureSettings()
    anthropic: AnthropicSettings = AnthropicSettings()
    google: GoogleSettings = GoogleSettings()
    ollama: OllamaSettings = OllamaSettings()
    memory: MemorySettings = MemorySettings()
    journal: JournalSettings = JournalSettings()
    moderate: ModerateSettings = ModerateSettings()
    observe: ObserveSettings = ObserveSettings()
    server: ServerSettings = ServerSettings()
    evaluate: EvaluateSettings = EvaluateSettings()

    def service(self, name: str) -> ServiceSettings:
        """Return the settings of a service, with `LLM_*` on top if it is the chosen provider."""
        own = getattr(self, name, None)
        own = own if isinstance(own, ServiceSettings) else ServiceSettings()
        return own.override(self.provider) if name == self.provider.name else own

    @property
    def temperature(self) -> float:
        """Return the temperature of a request that names none."""
        own = self.service(self.provider.name).temperature
        return self.ground.temperature if own is None else own
