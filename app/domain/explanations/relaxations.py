"""How a lease request is changed so that one rule no longer excludes an offering."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from app.domain.lease_requests import LeaseRequest
from app.domain.money import format_money
from app.domain.offerings import Market, MarketPreference, Offering
from app.domain.placement import Exclusion
from app.domain.rates import price_at


def market_words(market: Market) -> str:
    """`on demand`, `spot` or `reserved`."""
    return str(market).replace("_", " ")


Change = Callable[[LeaseRequest, Offering], tuple[LeaseRequest, str]]


def _change_gpu(request: LeaseRequest, **changes: Any) -> LeaseRequest:
    return request if request.gpu is None else replace(request, gpu=replace(request.gpu, **changes))


def _change_model(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    model = o.type.gpu.model
    return _change_gpu(request, model=model), f"Request the GPU model {model}."


def _change_count(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    count = o.type.gpu.count
    changes = {"count": count} if request.gpu is None or request.gpu.min_count is None else {"min_count": count}
    return _change_gpu(request, **changes), f"Request {count} {'GPU' if count == 1 else 'GPUs'} per VM."


def _change_memory(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    memory = o.type.gpu.memory_gib
    return _change_gpu(request, memory_gib=memory), f"Accept {memory} GiB of memory per GPU."


def _change_vendor(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    vendor = o.type.gpu.vendor
    return _change_gpu(request, vendor=vendor), f"Accept GPUs of {vendor}."


def _change_interconnect(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    interconnect = o.type.gpu.interconnect
    return _change_gpu(request, interconnect=interconnect), f"Accept GPUs connected by {interconnect}."


def _change_vcpus(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    return replace(request, min_vcpus=o.type.vcpus), f"Accept {o.type.vcpus} vCPUs."


def _change_vm_memory(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    memory = int(o.type.memory_gib)
    return replace(request, min_memory_gib=memory), f"Accept {memory} GiB of memory."


def _change_local_disk(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    disk = o.type.local_disk_gib
    return replace(request, min_local_disk_gib=disk or None), f"Accept {disk} GiB of local disk."


def _add_type(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    name = o.key.instance_type
    return replace(request, instance_types=(*(request.instance_types or ()), name)), f"Allow the instance type {name}."


def _allow_markets(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    return replace(request, market=MarketPreference.ANY), f"Allow any market, {market_words(o.key.market)} included."


def _add_provider(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    providers = (*(request.providers or ()), o.provider)
    return replace(request, providers=providers), f"Allow the provider {o.provider}."


def _add_region(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    region = o.key.region
    return replace(request, regions=(*(request.regions or ()), region)), f"Allow the region {region}."


def _use_default_image(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    return replace(request, image=None), f"Use the default image of account {o.key.account}."


def _raise_price(request: LeaseRequest, o: Offering) -> tuple[LeaseRequest, str]:
    price = format_money(price_at(o, request.parts) or Decimal(0))
    return replace(request, max_price_per_hour=Decimal(price)), f"Raise max_price_per_hour to {price}."


RELAXATIONS: Mapping[Exclusion, Change | None] = MappingProxyType(
    {
        Exclusion.GPU_MODEL: _change_model,
        Exclusion.GPU_COUNT: _change_count,
        Exclusion.GPU_MEMORY: _change_memory,
        Exclusion.GPU_VENDOR: _change_vendor,
        Exclusion.GPU_FRACTION: None,
        Exclusion.INTERCONNECT: _change_interconnect,
        Exclusion.VCPUS: _change_vcpus,
        Exclusion.MEMORY: _change_vm_memory,
        Exclusion.LOCAL_DISK: _change_local_disk,
        Exclusion.INSTANCE_TYPE: _add_type,
        Exclusion.MARKET: _allow_markets,
        Exclusion.PROVIDER: _add_provider,
        Exclusion.REGION: _add_region,
        Exclusion.IMAGE: _use_default_image,
        Exclusion.RESERVED_ONLY: None,
        Exclusion.NO_DRIVER_IMAGE: None,
        Exclusion.NO_PRICE: None,
        Exclusion.PRICE_CAP: _raise_price,
        Exclusion.CORDONED: None,
        Exclusion.ACCOUNT: None,
        Exclusion.RESERVATION: None,
        Exclusion.SPEND_CAP: None,
        Exclusion.QUOTE: None,
        Exclusion.VOLUME_ELSEWHERE: None,
        Exclusion.VOLUME_KIND: None,
    }
)
"""How a request is changed so that a rule no longer excludes an offering. None: no request changes that."""
