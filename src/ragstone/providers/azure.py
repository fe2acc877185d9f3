"""Chat with a model that Azure OpenAI has deployed.

The model is the name of the deployment. If it does not say which model that is, name its family:
AZURE_OPENAI_CAPABILITIES=family=gpt-6-luna.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.errors import SettingsError
from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, build_provider
from ragstone.providers.http import Endpoint
from ragstone.providers.openai import OpenAIWire
from ragstone.providers.retry import Service

SERVICE = Service("Azure OpenAI", "AZURE_OPENAI")


@dataclass(frozen=True, slots=True)
class AzureWire(OpenAIWire):
    """Speak the protocol of OpenAI to a deployment: its own path, and the version as a parameter.

    Without a version the path is that of the v1 API.
    """

    api_version: str = ""

    def locate(self, path: str, model: str) -> str:
        if not self.api_version:
            return f"openai/v1/{path}"
        if path == "responses":
            return f"openai/{path}?api-version={self.api_version}"
        return f"openai/deployments/{model}/{path}?api-version={self.api_version}"


def build(context: PartContext) -> ChatProvider:
    settings = context.settings
    options = settings.service("azure").override(settings.provider)
    if not options.base_url or not options.model:
        raise SettingsError(
            "The provider 'azure' needs the URL of a resource and the name of a deployment.",
            hint="Set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT.",
        )
    headers = {"api-key": options.key} if options.key else {}
    endpoint = Endpoint(SERVICE, options.base_url, headers)
    wire = AzureWire(endpoint, "azure", "azure", settings.azure.azure_api_version)
    return build_provider(wire, options, settings, model="", fast_model="")
