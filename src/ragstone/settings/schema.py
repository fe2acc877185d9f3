"""Everything that can be set, one section per room, in the order of the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import SecretStr

from ragstone.settings.services import ModerateSettings, ObserveSettings, Section, ServerSettings
from ragstone.settings.services import setting as _setting
from ragstone.types import RetrievalMethod

PRESETS = ("minimal", "classic", "balanced", "careful")


class DataSettings(Section):
    directory: Path = _setting(
        Path(platformdirs.user_data_dir("ragstone", appauthor=False)),
        "Where documents, index and journal are kept.",
        "RAGSTONE_DATA",
    )
    database_url: SecretStr = _setting(
        SecretStr(""),
        "A PostgreSQL database for the catalog; SQLite in the directory when empty.",
        "RAGSTONE_DATABASE_URL",
    )
    answer_cache: int = _setting(
        10_000,
        "Answers kept for who asks the same again, until the collection changes; 0 keeps none.",
        ge=0,
        le=1_000_000,
    )
    answer_cache_mb: float = _setting(
        128.0, "Memory that these answers may take in each process.", ge=0, le=1_000_000
    )
    lock_timeout_s: float = _setting(
        10.0, "How long a second writer waits for its turn.", ge=0, le=3600
    )


class IndexSettings(Section):
    kind: str = _setting("embedded", "Where chunks are searched: embedded, or qdrant.")
    qdrant_url: str = _setting("http://127.0.0.1:6333", "Address of the Qdrant server or cluster.")
    qdrant_api_key: SecretStr = _setting(SecretStr(""), "Its API key.")
    qdrant_prefix: str = _setting(
        "ragstone_", "What the names of its collections begin with.", max_length=60
    )
    qdrant_shards: int = _setting(1, "Shards of a new collection.", ge=1, le=1000)
    qdrant_replicas: int = _setting(1, "Copies of each shard.", ge=1, le=20)
    qdrant_write_consistency: int = _setting(
        1, "Copies that must have a write before it counts.", ge=1, le=20
    )
    qdrant_read_consistency: Literal["all", "majority", "quorum"] | None = _setting(
        None, "Copies that must agree on a read; none asks the nearest."
    )
    qdrant_timeout_s: float = _setting(10.0, "Longest wait for a reply.", gt=0, le=3600)
    qdrant_retries: int = _setting(3, "Tries after the first one.", ge=0, le=20)


class IngestSettings(Section):
    splitter: str = _setting("sentences", "Which splitter cuts documents into chunks.")
    max_file_mb: float = _setting(200.0, "Larger files are refused.", gt=0, le=10_000)
    chunk_tokens: int = _setting(
        200, "Most tokens of a chunk, its heading path included.", ge=32, le=8192
    )
    overlap_tokens: int = _setting(
        32, "Most tokens that a chunk repeats of the one before, in whole sentences.", ge=0, le=4096
    )
    chunking: Literal["structure", "sentence_window", "parent_child"] = _setting(
        "structure",
        "What is searched and what is read: the same chunk; one sentence, read with its "
        "neighbours; or a chunk, read as the longer passage that it is a part of.",
    )
    window_sentences: int = _setting(
        3, "sentence_window: neighbours on either side that are read with a sentence.", ge=0, le=50
    )
    parent_tokens: int = _setting(
        600, "parent_child: most tokens of the passage that is read.", ge=32, le=65_536
    )
    batch_chunks: int = _setting(256, "Chunks that are stored with one commit.", ge=1, le=8192)
    workers: int = _setting(
        0, "Processes that read files; 0 is one per processor core.", ge=0, le=256
    )
    embed_threads: int = _setting(
        0, "Threads that embed chunks; 0 is one per processor core.", ge=0, le=256
    )
    niceness: int = _setting(
        5, "How far embedding steps back for everything else on the machine.", ge=0, le=19
    )
    timeout_s: float = _setting(
        120.0, "Longest time for one document; its reader is stopped then.", gt=0, le=86_400
    )
    max_memory_mb: int = _setting(1024, "Most memory for reading one file.", ge=128, le=1_000_000)
    max_pages: int = _setting(5000, "Most pages of a document.", ge=1, le=1_000_000)
    max_unpacked_mb: int = _setting(
        1000, "Most that a compressed file may unpack to.", ge=1, le=1_000_000
    )
    max_depth: int = _setting(3, "How deep archives may stand in archives.", ge=0, le=20)
    max_members: int = _setting(20_000, "Most files in an archive.", ge=1, le=10_000_000)
    ocr: bool = _setting(False, "Read pictures and pages without text (needs ragstone[ocr]).")
    keep_originals: bool = _setting(True, "Keep uploaded files as they came, for download.")
    refresh_s: float = _setting(
        30.0, "How often what a long run has stored becomes searchable.", gt=0, le=86_400
    )
    old_version_days: float = _setting(
        30.0, "How long replaced versions stay readable for old citations.", ge=0, le=36_500
    )


class EmbedSettings(Section):
    name: str = _setting(
        "builtin",
        "What makes vectors of texts: builtin, openai, google, ollama, fastembed or "
        "sentence-transformers.",
        "EMBEDDING_PROVIDER",
    )
    model: str = _setting(
        "", "Its model, or the folder of one; empty is the usual one.", "EMBEDDING_MODEL"
    )
    base_url: str = _setting("", "Its address, for servers of one's own.", "EMBEDDING_BASE_URL")
    api_key: SecretStr = _setting(
        SecretStr(""), "Its key; empty is that of the provider of the same name.",
        "EMBEDDING_API_KEY",
    )  # fmt: skip
    dimension: int = _setting(
        0, "Length of the vectors, where the model offers several; 0 is its own.",
        "EMBEDDING_DIMENSION", ge=0, le=65_536,
    )  # fmt: skip
    batch: int = _setting(64, "Most texts of one call.", ge=1, le=2048)

    def key(self, other: str) -> str:
        return self.api_key.get_secret_value() or other


class UnderstandSettings(Section):
    name: str = _setting("intent", "Which understander reads the question first.")
    min_chars: int = _setting(3, "Fewest characters of a question after trimming.", ge=1, le=100)
    max_chars: int = _setting(1000, "Most characters of a question.", ge=10, le=100_000)
    intent_enabled: bool = _setting(
        True, "Answer greetings, thanks and small talk at once, without a search."
    )
    intent_confidence: float = _setting(
        0.75,
        "Small talk is answered as such only when it is at least this probable.",
        "INTENT_CONFIDENCE_THRESHOLD",
        "SEMANTIC_CONFIDENCE_THRESHOLD",
        ge=0.5,
        le=1,
    )
    exemplars: Path | None = _setting(
        None, "A TOML file with further typical utterances for the intent router."
    )
    expand: Literal["off", "complex", "always"] = _setting(
        "complex", "Which questions a model may rewrite and widen before the search."
    )
    variants: int = _setting(2, "Other wordings that a model adds to a question.", ge=0, le=10)
    hyde: bool = _setting(False, "Also search for a hypothetical answer that a model writes.")


class RetrieveSettings(Section):
    enabled: bool = _setting(True, "Search the documents at all.", "RAG_ENABLED")
    method: RetrievalMethod = _setting("hybrid", "How to search.", "RETRIEVAL_METHOD")
    candidates: int = _setting(
        50, "Hits taken from each search.", "RETRIEVAL_INITIAL_K", ge=1, le=10_000
    )
    bm25_k1: float = _setting(
        1.2, "BM25: how soon repeated terms stop counting.", "BM25_K1", ge=0, le=10
    )
    bm25_b: float = _setting(0.75, "BM25: how much a chunk's length counts.", "BM25_B", ge=0, le=1)
    fusion: Literal["convex", "rrf"] = _setting("convex", "How the lists become one.")
    normalisation: Literal["theoretical", "minmax", "zscore"] = _setting(
        "theoretical", "How convex fusion makes the lists' scores comparable."
    )
    dense_weight: float = _setting(
        0.65, "Share of the semantic list in the convex score.", ge=0, le=1
    )
    foreign_weight: float = _setting(
        0.3, "The same for questions in a script that the embedder does not know.", ge=0, le=1
    )
    keyword_boost: float = _setting(
        0.3, "What a question's exact terms add to a similarity, in keyword boosting.", ge=0, le=2
    )
    chunkenizer_url: str = _setting(
        "",
        "Address of an external retrieval service that takes the search's place.",
        "CHUNKENIZER_API_URL",
    )
    chunkenizer_api_key: SecretStr = _setting(
        SecretStr(""), "Sent to that service as a bearer key.", "CHUNKENIZER_API_KEY"
    )
    chunkenizer_timeout_s: float = _setting(10.0, "Longest wait for that service.", gt=0, le=600)
    rrf_k: int = _setting(60, "Rank constant of reciprocal rank fusion.", "RRF_K", ge=1, le=10_000)
    name: str = _setting(
        "", "Which retriever; empty is hybrid, or chunkenizer where its address is set."
    )

    @property
    def retriever_name(self) -> str:
        return self.name or ("chunkenizer" if self.chunkenizer_url else "hybrid")


class RefineSettings(Section):
    steps: tuple[str, ...] = _setting(
        ("filter", "rerank", "deduplicate", "merge", "select", "widen"),
        "The refiners in their order. One that its own settings switch off is left out.",
    )
    min_similarity: float = _setting(
        0.0,
        "Hits less similar to the question are dropped; 0 keeps all.",
        "RAG_MIN_SIMILARITY",
        "RELEVANCE_THRESHOLD",
        ge=0,
        le=1,
    )
    min_chunks: int = _setting(
        2, "The filter never leaves fewer hits than this.", "RAG_MIN_CHUNKS", ge=0, le=1000
    )
    reranker_enabled: bool = _setting(False, "Score the first hits again.", "RAG_RERANKER_ENABLED")
    reranker: str = _setting("noop", "Which reranker.", "RAG_RERANKER_TYPE")
    rerank_top_k: int = _setting(
        20, "Hits that the reranker scores.", "RERANK_TOP_K", ge=1, le=1000
    )
    rerank_weight: float = _setting(
        0.2, "Share of the cross-encoder's score in the combined one.", ge=0, le=1
    )
    duplicate_similarity: float = _setting(
        1.0,
        "A hit this similar to a better one is dropped as its duplicate; 1 keeps all.",
        ge=0.5,
        le=1,
    )
    mmr_lambda: float = _setting(
        1.0,
        "Relevance (1) against diversity (0) when the final hits are chosen.",
        "RAG_MMR_LAMBDA",
        ge=0,
        le=1,
    )
    top_k: int = _setting(10, "Hits that reach the prompt.", "RAG_TOP_K", ge=1, le=1000)
    chat_top_k: int = _setting(
        5, "The same for the chat doors.", "RAG_TOP_K", "RETRIEVAL_FINAL_K", ge=1, le=1000
    )


class GroundSettings(Section):
    context: str = _setting("budget", "Which context builder makes sources of the hits.")
    answerer: str = _setting("prompt", "Which answerer writes from the sources.")
    max_context_tokens: int = _setting(
        6000, "Most tokens of sources in the prompt.", "RAG_MAX_CONTEXT_TOKENS", ge=16, le=2_000_000
    )
    max_context_chars: int | None = _setting(
        None,
        "Most characters of sources in the prompt; both limits hold when both are set.",
        "RAG_MAX_CONTEXT_CHARS",
        ge=64,
        le=10_000_000,
    )
    merge_neighbours: bool = _setting(
        False, "Hits that follow each other in a document become one source."
    )
    neighbours: int = _setting(
        0, "Chunks before and after each hit that are read with it, as one source.", ge=0, le=20
    )
    order: Literal["best_first", "edges"] = _setting(
        "best_first",
        "Order of the sources in the prompt; edges puts the best ones first and last, "
        "for models that overlook the middle.",
    )
    compression_ratio: float = _setting(
        1.0,
        "Share of the sources' text that is kept, by how much each sentence matters.",
        "COMPRESSION_RATIO",
        ge=0.05,
        le=1,
    )
    temperature: float = _setting(
        0.1, "Sampling temperature of the model.", "RAG_TEMPERATURE", ge=0, le=2
    )


class CheckSettings(Section):
    name: str = _setting("claims", "Which checker judges the answer.")
    max_iterations: int = _setting(
        2,
        "Most further searches when the evidence is poor or the answer is not grounded.",
        "MAX_ITERATIONS",
        ge=0,
        le=10,
    )
    conflict_notice: bool = _setting(
        True, "Say so in the answer when two sources disagree on the point asked."
    )
    hold_unverified: bool = _setting(
        False,
        "Stream only sentences that were checked; those that no source supports are left out.",
        "HOLD_UNVERIFIED",
    )


class ProviderSettings(Section):
    name: str = _setting("extractive", "Who writes the answer.", "LLM_PROVIDER")
    model: str = _setting(
        "",
        "Model that writes the answer; empty is the provider's usual one.",
        "OPENAI_MODEL",
        "OLLAMA_MODEL",
        "LLM_MODEL",
    )
    fast_model: str = _setting(
        "", "Small fast model for the inner calls; empty is the usual one.", "LLM_FAST_MODEL"
    )
    base_url: str = _setting(
        "",
        "Address of the provider, for servers of one's own.",
        "OPENAI_BASE_URL",
        "OLLAMA_BASE_URL",
        "LLM_BASE_URL",
    )
    max_tokens: int = _setting(
        1024,
        "Most tokens of an answer.",
        "OPENAI_MAX_TOKENS",
        "GOOGLE_MAX_TOKENS",
        "LLM_MAX_TOKENS",
        ge=16,
        le=1_000_000,
    )
    api_key: SecretStr = _setting(SecretStr(""), "Key of the provider.", "LLM_API_KEY")
    openai_api_key: SecretStr = _setting(SecretStr(""), "Key for openai.", "OPENAI_API_KEY")
    google_api_key: SecretStr = _setting(
        SecretStr(""), "Key for google.", "GEMINI_API_KEY", "GOOGLE_API_KEY"
    )
    anthropic_api_key: SecretStr = _setting(
        SecretStr(""), "Key for anthropic.", "ANTHROPIC_API_KEY"
    )
    max_retries: int = _setting(3, "Tries after the first one.", "LLM_MAX_RETRIES", ge=0, le=20)
    timeout_s: float = _setting(
        30.0, "Longest wait for a provider.", "LLM_TIMEOUT_SECONDS", gt=0, le=3600
    )

    def key(self, provider: Literal["openai", "google", "anthropic"]) -> str:
        """The key for a provider: `api_key`, else the provider's own."""
        own: SecretStr = getattr(self, f"{provider}_api_key")
        return self.api_key.get_secret_value() or own.get_secret_value()


class MemorySettings(Section):
    max_turns: int = _setting(
        10, "Most turns of a session that are sent along word for word.", ge=1, le=1000
    )
    max_tokens: int = _setting(
        1500, "Most tokens of those turns; what is older is summarised.", ge=50, le=1_000_000
    )
    summary_tokens: int = _setting(300, "Most tokens of the summary.", ge=20, le=100_000)
    kept_turns: int = _setting(
        500, "Most turns of a session that can be read again.", ge=1, le=1_000_000
    )


class JournalSettings(Section):
    query_log: Literal["off", "metadata", "full"] = _setting(
        "full", "What is remembered of each query.", "QUERY_LOG"
    )
    retention_days: int = _setting(
        0,
        "Days until a query or a turn of a session is forgotten; 0 keeps all.",
        "RETENTION_DAYS",
        ge=0,
        le=36_500,
    )
    retention_check_s: float = _setting(
        3600.0, "How often a running server looks for what has expired.", gt=0, le=86_400
    )


class EvaluateSettings(Section):
    directory: Path = _setting(
        Path(platformdirs.user_cache_dir("ragstone", appauthor=False), "evaluate"),
        "Where datasets are embedded and the results of evaluations are kept.",
    )


class Settings(Section):
    """Everything that can be set, one section per room."""

    preset: Literal["minimal", "classic", "balanced", "careful"] = _setting(
        "balanced", "The set of defaults to start from.", "RAGSTONE_PRESET"
    )
    data: DataSettings = DataSettings()
    index: IndexSettings = IndexSettings()
    ingest: IngestSettings = IngestSettings()
    embed: EmbedSettings = EmbedSettings()
    understand: UnderstandSettings = UnderstandSettings()
    retrieve: RetrieveSettings = RetrieveSettings()
    refine: RefineSettings = RefineSettings()
    ground: GroundSettings = GroundSettings()
    check: CheckSettings = CheckSettings()
    provider: ProviderSettings = ProviderSettings()
    memory: MemorySettings = MemorySettings()
    journal: JournalSettings = JournalSettings()
    moderate: ModerateSettings = ModerateSettings()
    observe: ObserveSettings = ObserveSettings()
    server: ServerSettings = ServerSettings()
    evaluate: EvaluateSettings = EvaluateSettings()


# Names of the design documents that belong to parts this version does not have. They are
# accepted, so that an existing environment file works as it is, and listed as unused.
NOT_USED_YET = (
    "OPENAI_TEMPERATURE", "GOOGLE_TEMPERATURE",
)  # fmt: skip
