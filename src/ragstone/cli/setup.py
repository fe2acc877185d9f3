"""Run `ragstone setup`: find a language model, test it with one question, write ragstone.toml."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli.options import stderr, stdout
from ragstone.errors import InputError, ProviderError, SettingsError
from ragstone.providers.choices import FoundProvider, find_providers, list_models
from ragstone.settings import load_settings
from ragstone.settings.change import set_values, write_file
from ragstone.settings.sources import CONFIG_FILE
from ragstone.types import Answer

_QUESTION = "What colour is the gate of the observatory?"
_DOCUMENT = "The gate of the observatory was painted green in 2020.\n"


def setup(
    provider: Annotated[
        str | None, typer.Option(help="openai, azure, anthropic, google, ollama or local.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model that writes the answers.")] = None,
    base_url: Annotated[str | None, typer.Option(help="URL of a server of your own.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Use the first model found, without asking.")
    ] = False,
    no_test: Annotated[bool, typer.Option("--no-test", help="Write without a test.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            readable=False,
            help="File to write (default: ragstone.toml).",
        ),
    ] = None,
) -> None:
    """Connect a language model: find one, test it with one cited question, write ragstone.toml.

    Looks for Ollama, LM Studio, llama.cpp and vLLM on this machine and for keys in the
    environment. Keys are never written: they stay in the environment.

    Examples:

      ragstone setup

      ragstone setup --provider ollama --model qwen3:8b

      ragstone setup --provider openai --base-url http://127.0.0.1:1234/v1 --yes
    """
    target = config or Path(CONFIG_FILE)
    choice = _choose(provider, base_url, yes=yes, is_new=not target.is_file(), config=config)
    name = model or _choose_model(choice, yes=yes)
    values = {"provider.name": choice.provider}
    if choice.provider in ("openai", "azure", "anthropic", "google", "ollama"):
        values[f"{choice.provider}.model"] = name
        values[f"{choice.provider}.base_url"] = choice.base_url
    else:
        values["provider.model"] = name
    values = {path: value for path, value in values.items() if value}
    if not no_test:
        _test(values, config)
    text = target.read_text("utf-8") if target.is_file() else ""
    write_file(target, set_values(text, values))
    stdout().print(f"Wrote {escape(str(target))}. Ask with: [bold]ragstone ask '…'[/]")


def _choose(
    provider: str | None, base_url: str | None, *, yes: bool, is_new: bool, config: Path | None
) -> FoundProvider:
    """Return what the flags name, or what the user chooses from what was found."""
    if provider or base_url:
        name, url = provider or "openai", base_url or ""
        return FoundProvider(name, name, url, list_models(name, url))
    loaded = load_settings(config_file=None if is_new else config)
    found = find_providers(loaded.settings)
    if not found:
        raise SettingsError(
            "No language model was found: no server answers on this machine, and no key is set.",
            hint="Start Ollama (ollama serve) or set e.g. OPENAI_API_KEY, or name one: "
            "ragstone setup --provider openai --base-url URL. Without a model Ragstone quotes.",
        )
    for number, one in enumerate(found, start=1):
        place = f" at {one.base_url}" if one.base_url else ", key found"
        models = f" · {', '.join(one.models[:5])}" if one.models else ""
        stderr().print(f"{number}. [bold]{escape(one.title)}[/]{escape(place + models)}")
    return found[_ask_number("Which one?", len(found), yes=yes) - 1]


def _choose_model(choice: FoundProvider, *, yes: bool) -> str:
    """Return the model to use; empty for the default of a service."""
    if not choice.models:
        return ""
    if len(choice.models) == 1:
        return choice.models[0]
    for number, one in enumerate(choice.models, start=1):
        stderr().print(f"{number}. {escape(one)}")
    return choice.models[_ask_number("Which model?", len(choice.models), yes=yes) - 1]


def _ask_number(question: str, count: int, *, yes: bool) -> int:
    if yes or count == 1:
        return 1
    if not sys.stdin.isatty():
        raise InputError(
            f"There are {count} choices, and no terminal to choose at.",
            hint="Add --yes, --provider NAME or --model NAME.",
        )
    number = int(typer.prompt(question, default=1, type=int, err=True))
    if not 1 <= number <= count:
        raise InputError(f"Invalid choice {number}.", hint=f"Use 1 to {count}.")
    return number


def _test(values: dict[str, str], config: Path | None) -> None:
    """Ask one question about one document; raise an error unless the model answers it."""
    from ragstone.engine import Engine
    from ragstone.threads import background_loop

    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "gate.txt")
        document.write_text(_DOCUMENT, "utf-8")
        own = config if config and config.is_file() else None
        flags: dict[str, Any] = {"data.directory": Path(folder, "data"), "provider.strict": True}
        engine = Engine(load_settings(flags=values | flags, config_file=own).settings)
        try:
            stderr().print(f"[dim]Asking {engine.provider.name} {engine.provider.model} …[/]")
            background_loop().run(engine.ingest([document]))
            answer = engine.ask_sync(_QUESTION)
        finally:
            engine.close()
    _print_test(answer)


def _print_test(answer: Answer) -> None:
    if answer.status != "answered":
        raise ProviderError(
            "The model answered, but not from the document.",
            hint="Try a larger model, or write the settings all the same with --no-test.",
        )
    total = answer.total_usage
    cost = f" · ${total.cost_usd:.6f}" if total.cost_usd is not None else ""
    stdout().print(f"? {_QUESTION}")
    stdout().print(answer.text, markup=False)
    cited = "with a citation" if answer.citations else "without a citation"
    stdout().print(
        f"[dim]{answer.model} answered {cited} in {answer.total_ms / 1000:.1f} s · "
        f"{total.input_tokens} + {total.output_tokens} tokens{cost}[/]"
    )
