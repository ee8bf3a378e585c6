"""Refreshing what is offered: types, zones, prices, service quotas, and whether the account's credentials still work."""

from typing import Any

import structlog

from app.db import fleet
from workers.providers.base import Offered, ServiceQuota
from workers.runtime import Runtime

log = structlog.get_logger(__name__)


def refresh(runtime: Runtime, account: str, region: str) -> int:
    """Writes the offerings of an account and region. Answers how many. Raises ProviderError.

    An account whose credentials fail is set aside with the reason, and asked again at the next refresh.
    """
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    offered = provider.offered(region)
    limits = provider.service_quotas(region)
    name = runtime.accounts.provider_name(account)
    with runtime.database.begin() as connection:
        if offered:
            connection.execute(fleet.save_offerings(), [_row(account, name, one) for one in offered])
        connection.execute(fleet.forget_unoffered(account, region))
        connection.execute(fleet.service_quotas(account, region, [_quota(one) for one in limits]))
    runtime.catalogue.forget()
    return len(offered)


def _row(account: str, provider: str, one: Offered) -> dict[str, Any]:
    gpu = one.type.gpu
    return {
        "account": account,
        "provider": provider,
        "region": one.region,
        "zone": one.zone,
        "instance_type": one.type.name,
        "market": str(one.market),
        "gpu_model": gpu.model,
        "gpu_count": gpu.count,
        "gpu_memory_gib": gpu.memory_gib,
        "gpu_interconnect": gpu.interconnect,
        "vcpus": one.type.vcpus,
        "memory_gib": one.type.memory_gib,
        "price_per_hour": one.price_per_hour,
        "price_as_of": one.price_as_of,
        "price_source": one.price_source,
    }


def _quota(one: ServiceQuota) -> dict[str, Any]:
    return {"code": one.code, "name": one.name, "limit": str(one.limit), "unit": one.unit}
