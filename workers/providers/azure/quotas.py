"""The subscription's limits on GPU VMs, counted in vCPUs per family, per region, and for all spot VMs."""

import re
from decimal import Decimal

from workers.providers.azure import listings
from workers.providers.azure.calls import part
from workers.providers.azure.clients import Group
from workers.providers.types import ServiceQuota

_SHOWN = re.compile(r"cores|lowPriorityCores|standard ?N[CD].*Family", re.IGNORECASE)
"""Names in the Compute API's usages: the region's vCPUs, those of spot VMs, and the families NC and ND."""


def read(group: Group, region: str) -> list[ServiceQuota]:
    """Those that bound GPU launches."""
    return [
        ServiceQuota(
            region=region,
            code=part(one, "name", "value"),
            name=part(one, "name").get("localizedValue") or part(one, "name", "value"),
            limit=Decimal(str(part(one, "limit"))),
            unit="vCPU",
        )
        for one in listings.items(group, listings.USAGES, region=region)
        if _SHOWN.fullmatch(part(one, "name", "value"))
    ]
