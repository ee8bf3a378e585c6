"""Adapters by provider name, imported on use: the SDKs are slow to import and large in memory."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from app.settings import AccountSettings, Settings
from app.settings.providers import providers
from workers.providers.part_price_list import PartPriceList, load_part_prices
from workers.providers.ports import Provider
from workers.providers.price_catalogue import PriceCatalogue
from workers.providers.price_list import FILE


def catalogue(provider: str) -> PriceCatalogue:
    """The types and prices that come with an adapter; imports no SDK. Raises KeyError for an unknown name."""
    return cast(PriceCatalogue, import_module(providers()[provider].catalogue).load())


@cache
def part_prices(provider: str) -> PartPriceList:
    """The prices of disks and addresses that come with an adapter. Raises KeyError for an unknown name."""
    return load_part_prices(providers()[provider].catalogue.rpartition(".")[0])


def price_list_path(provider: str) -> Path:
    """The file of the price list that comes with an adapter. Raises KeyError for an unknown name."""
    return Path(str(import_module(providers()[provider].catalogue).__file__)).with_name(FILE)


def connect(account: AccountSettings, settings: Settings) -> Provider:
    """The adapter of an account. Makes no call. Raises KeyError for an unknown provider name."""
    module, _, name = providers()[account.provider].adapter.partition(":")
    return cast(Provider, getattr(import_module(module), name)(account, settings))
