"""Adapters by provider name, imported on use: the SDKs are slow to import and large in memory."""

from importlib import import_module
from typing import cast

from app.settings import AccountConfig, Settings
from workers.providers.interfaces import Provider
from workers.providers.price_catalogue import PriceCatalogue

_FACTORIES = {
    "aws": "workers.providers.aws.adapter:AwsProvider",
    "gcp": "workers.providers.gcp.adapter:GcpProvider",
    "azure": "workers.providers.azure.adapter:AzureProvider",
}


PROVIDERS = tuple(_FACTORIES)


def listing(provider: str) -> PriceCatalogue:
    """The list of types and prices that comes with an adapter; imports no SDK. Raises KeyError for an unknown name."""
    package = _FACTORIES[provider].rpartition(".")[0]
    return cast(PriceCatalogue, import_module(f"{package}.catalogue").load())


def connect(account: AccountConfig, settings: Settings) -> Provider:
    """The adapter of an account. Makes no call. Raises KeyError for an unknown provider name."""
    module, _, name = _FACTORIES[account.provider].partition(":")
    factory = getattr(import_module(module), name)
    return cast(Provider, factory(account, settings))
