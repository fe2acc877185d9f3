"""Show the settings with their origins: `GET /v1/settings`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, SecretStr

from ragstone import __version__
from ragstone.server.deps import CallerDep, EngineDep
from ragstone.settings import PRESETS, Setting, allowed_values, list_settings, preset_values

router = APIRouter(prefix="/v1", tags=["settings"])


class SettingReply(BaseModel):
    name: str
    value: Any
    origin: str
    variables: list[str]
    description: str
    allowed: str


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
    listing = getattr(request.app.state, "listing", None) or list_settings(engine.settings)
    return SettingsReply(
        version=__version__,
        preset=engine.settings.preset,
        presets={preset: preset_values(preset) for preset in PRESETS},
        embedder=engine.embedder.name,
        provider=engine.provider.name,
        model=engine.provider.model,
        settings=[_describe(one) for one in listing if caller.is_admin or _is_public(one)],
    )


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
    return section not in {"data", "index", "provider", "server"} and "url" not in setting.path


def _describe(setting: Setting) -> SettingReply:
    value = setting.value
    if isinstance(value, SecretStr):
        value = "********" if value.get_secret_value() else ""
    elif not isinstance(value, str | int | float | bool | None):
        value = str(value)
    return SettingReply(
        name=setting.path,
        value=value,
        origin=setting.origin,
        variables=list(setting.names),
        description=setting.description,
        allowed=allowed_values(setting.path),
    )
