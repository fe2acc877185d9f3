"""Chat with a GGUF model in this process, through llama.cpp.

`LLM_MODEL` is the file's path, or the name of a model that `ragstone models pull` has downloaded.
llama.cpp serves its own OpenAI protocol on a loopback port, so the wire is OpenAI's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import SettingsError
from ragstone.models.registry import find_model, locate_model
from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, build_provider
from ragstone.providers.http import Endpoint
from ragstone.providers.openai import OpenAIWire
from ragstone.providers.retry import Service

DEFAULT_MODEL = "smollm2-135m"
# llama.cpp writes hundreds of lines about a model that it loads; 3 is its default.
_ERRORS_ONLY = 1
# Instructions and question, and sources that the model's own tokenizer counts higher.
_OTHER_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class LocalWire(OpenAIWire):
    """Speak the protocol of OpenAI to a llama.cpp server that lives as long as this object."""

    server: object = None


def find_gguf_file(name: str, directory: Path) -> Path:
    """Return the file of a model given by path or by name."""
    path = Path(name).expanduser()
    if path.suffix != ".gguf":
        path = locate_model(find_model(name), directory) / "model.gguf"
    if not path.is_file():
        raise SettingsError(
            f"Model file {path} not found.",
            hint=f"Download one with: ragstone models pull {DEFAULT_MODEL}, or set LLM_MODEL.",
        )
    return path


def build(context: PartContext) -> ChatProvider:
    try:
        import xllamacpp
    except ImportError as error:
        raise SettingsError(
            "The provider 'local' needs llama.cpp, which is not installed.",
            hint="Try: pip install 'ragstone[local]'",
        ) from error
    settings = context.settings
    options = settings.service("local").override(settings.provider)
    path = find_gguf_file(options.model or DEFAULT_MODEL, settings.data.models)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = settings.ground.max_context_tokens + 2 * options.token_limit + _OTHER_TOKENS
    params.n_parallel = 1
    params.verbosity = _ERRORS_ONLY
    server = xllamacpp.Server(params)
    endpoint = Endpoint(Service("llama.cpp"), f"{server.listening_address}/v1")
    wire = LocalWire(endpoint, "local", "local", server)
    # The server has one model, whatever its name; the name of the file tells the family.
    known = f"context_window={params.n_ctx} {options.capabilities}"
    options = options.model_copy(update={"model": path.stem, "capabilities": known})
    return build_provider(wire, options, settings, model=path.stem, fast_model=path.stem)
