"""Show the settings with their origins, and change some: `/v1/settings`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, get_args

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.datastructures import State

from ragstone import __version__
from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep
from ragstone.server.openapi import INVALID
from ragstone.server.routes.explore import EngineVariants
from ragstone.server.schemas import forbid_other_fields
from ragstone.settings import (
    PRESETS,
    Setting,
    allowed_values,
    list_settings,
    preset_values,
)
from ragstone.settings.change import explain_fixed, finish_change, plan_change
from ragstone.threads import run_in_thread
from ragstone.types import RetrievalMethod

log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["settings"])


class SettingReply(BaseModel):
    name: str
    value: Any
    origin: str
    variables: list[str]
    description: str
    allowed: str
    fixed: str = Field(description="Why it cannot be changed here; empty if an admin can.")
    choices: list[str] = Field(description="The values to choose from; empty: any allowed one.")


class SettingsReply(BaseModel):
    version: str
    preset: str
    presets: dict[str, dict[str, Any]]
    embedder: str
    provider: str
    model: str
    settings: list[SettingReply]


@router.get("/settings")
async def get_settings(request: Request, engine: EngineDep, caller: CallerDep) -> SettingsReply:
    """List every setting with its value, its origin and its allowed values.

    Paths and addresses of other servers are shown to admins only.
    """
    listing = request.app.state.listing or list_settings(engine.settings)
    return SettingsReply(
        version=__version__,
        preset=engine.settings.preset,
        presets={preset: preset_values(preset) for preset in PRESETS},
        embedder=engine.embedder.name,
        provider=engine.provider.name,
        model=engine.provider.model,
        settings=[
            _describe(one, engine, _explain_fixed(one, request, caller))
            for one in listing
            if caller.is_admin or _is_public(one)
        ],
    )


class SettingsChange(BaseModel):
    model_config = forbid_other_fields({"values": {"refine.top_k": 8}})

    values: dict[str, str | int | float | bool] = Field(
        description="New values by the name of the setting.", min_length=1, max_length=20
    )


@router.patch("/settings", responses=INVALID)
async def update_settings(
    body: SettingsChange, request: Request, engine: EngineDep, caller: CallerDep
) -> SettingsReply:
    """Change settings from the next question on, and write them to the settings file; admins only.

    Which ones can be changed is said by `fixed`. Those set by a flag or a variable cannot.
    """
    caller.require_admin()
    state = request.app.state
    if state.loaded is None:
        raise InputError(
            "The settings of this server cannot be changed here.",
            hint="It was started by a program; `ragstone serve` reads a settings file.",
        )
    async with state.settings_lock:
        await run_in_thread("store", _apply_change, state, engine, body.values)
    log.info("settings changed", extra={"settings": sorted(body.values), "owner": caller.owner})
    return await get_settings(request, engine, caller)


def _apply_change(state: State, engine: Engine, values: Mapping[str, Any]) -> None:
    text, settings = plan_change(state.loaded, values)
    engine.apply_settings(settings)
    try:
        # A provider that cannot be built is an error now, and not at the next question.
        engine.open()
        state.loaded = finish_change(state.loaded, text)
    except BaseException:  # also what a plug-in raises: the engine must go on as it was
        engine.apply_settings(state.loaded.settings)
        raise
    state.listing = state.loaded.listing
    state.variants = EngineVariants(engine, state.listing)


class ModelChoiceReply(BaseModel):
    name: str = Field(description="Send it as `model` with a question.")
    provider: str
    model: str = Field(description="Empty where the provider decides.")
    is_default: bool


@router.get("/providers")
async def list_providers(engine: EngineDep, caller: CallerDep) -> list[ModelChoiceReply]:
    """List the models that a conversation may choose; the default one first."""
    choices = engine.model_choices
    return [
        ModelChoiceReply(
            name=one.name,
            provider=one.provider,
            # The default one is open already, and knows its model.
            model=one.model or (engine.provider.model if at == 0 else ""),
            is_default=at == 0,
        )
        for at, one in enumerate(choices)
    ]


class ProviderState(BaseModel):
    provider: str
    model: str
    state: str
    reason: str = ""
    message: str = ""
    hint: str = ""
    checked_at: float | None = None


@router.put("/provider/state")
async def test_provider(engine: EngineDep, caller: CallerDep) -> ProviderState:
    """Ask the model that writes answers for one word, and return how that went; admins only."""
    caller.require_admin()
    health = await engine.probe_provider()
    provider = engine.provider
    return ProviderState(provider=provider.name, model=provider.model, **health.as_dict())


def _is_public(setting: Setting) -> bool:
    section = setting.path.partition(".")[0]
    if section in {"data", "index", "provider", "server"} or setting.path == "ingest.watch":
        return False
    return "url" not in setting.path


def _list_values(path: str, engine: Engine) -> list[str]:
    """List the values of a setting that can be changed and has few."""
    if path == "preset":
        return list(PRESETS)
    if path == "retrieve.method":
        return list(get_args(RetrievalMethod))
    if path == "provider.name":
        return list(dict.fromkeys(one.provider for one in engine.model_choices))
    return []


def _explain_fixed(setting: Setting, request: Request, caller: Caller) -> str:
    if not caller.is_admin:
        return "Only admins can change settings."
    return explain_fixed(setting, request.app.state.loaded)


def _describe(setting: Setting, engine: Engine, fixed: str) -> SettingReply:
    return SettingReply(
        name=setting.path,
        value=setting.shown_value,
        origin=setting.origin,
        variables=list(setting.names),
        description=setting.description,
        allowed=allowed_values(setting.path),
        fixed=fixed,
        choices=_list_values(setting.path, engine),
    )
