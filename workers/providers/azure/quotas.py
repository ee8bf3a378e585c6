"""The subscription's limits on GPU VMs, counted in vCPUs per family, per region, and for all spot VMs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from app.domain.account_checks import AccountCheck, CheckSubject
from app.domain.offerings import Market
from workers.providers.azure import listings
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.common.checks import check_quota, not_checked, plain, refused
from workers.providers.errors import ProviderError
from workers.providers.types import ProviderOffering, ServiceQuota

_CORES, _SPOT_CORES = "cores", "lowPriorityCores"
_SHOWN = re.compile(r"cores|lowPriorityCores|standard ?N[CDV].*Family", re.IGNORECASE)
"""Names in the Compute API's usages: the region's vCPUs, those of spot VMs, and the families NC, ND and NV."""


def read(group: Group, region: str) -> list[ServiceQuota]:
    """Those that bound GPU launches."""
    return [
        ServiceQuota(
            region=region,
            code=part(usage, "name", "value"),
            name=part(usage, "name").get("localizedValue") or part(usage, "name", "value"),
            limit=Decimal(str(part(usage, "limit"))),
            unit="vCPU",
        )
        for usage in listings.items(group, listings.USAGES, region=region)
        if _SHOWN.fullmatch(part(usage, "name", "value"))
    ]


def check_region(group: Group, offered: Sequence[ProviderOffering], region: str) -> Iterator[AccountCheck]:
    """The region's vCPUs, those of spot VMs, and those of each family that the region offers."""
    try:
        usages = {
            part(usage, "name", "value"): usage for usage in listings.items(group, listings.USAGES, region=region)
        }
        families = _families(group, region)
    except ProviderError as error:
        fix = "grant Microsoft.Compute/locations/usages/read and Microsoft.Compute/skus/read for the subscription"
        yield refused(CheckSubject.QUOTA, "usages", error, fix)
        return
    for code, least in _smallest(offered, families).items():
        if code in usages:
            yield _check(code, usages[code], least, region)
        else:
            yield not_checked(CheckSubject.QUOTA, code, "Azure reports no usage of this quota")


def _families(group: Group, region: str) -> dict[str, str]:
    """The quota of each size: Resource SKUs name it as its family."""
    skus = listings.items(group, listings.SKUS, query={"$filter": f"location eq '{region}'"})
    return {part(sku, "name"): str(sku.get("family", "")) for sku in skus}


def _smallest(offered: Sequence[ProviderOffering], families: Mapping[str, str]) -> dict[str, int]:
    """VCPUs of the smallest offered size, by quota. Spot VMs count only against their own quota."""
    sizes: dict[str, int] = {}
    for offer in offered:
        spot = offer.market is Market.SPOT
        for code in (_SPOT_CORES,) if spot else (_CORES, families.get(offer.type.name) or "unknown family"):
            sizes[code] = min(sizes.get(code, offer.type.vcpus), offer.type.vcpus)
    return dict(sorted(sizes.items()))


def _check(code: str, usage: Document, least: int, region: str) -> AccountCheck:
    name = part(usage, "name").get("localizedValue") or code
    limit = Decimal(str(part(usage, "limit")))
    free = limit - Decimal(str(part(usage, "currentValue")))
    fix = f"request more of {name} in the Azure portal (Quotas, Compute), {region}"
    return check_quota(code, amount=free, least=least, state=f"{plain(free)} of {plain(limit)} vCPUs free", fix=fix)
