"""The project's own limits that bound GPU VMs: GPUs per region and model, GPUs over all regions, disks and addresses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal

from app.domain.account_checks import AccountCheck, CheckSubject
from app.domain.offerings import Market
from workers.providers.common.batch import answered
from workers.providers.common.checks import check_quota, not_checked, plain
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.sdk import ProjectsClient, Quota, RegionsClient
from workers.providers.types import ProviderOffering, ServiceQuota

OVERALL = "GPUS_ALL_REGIONS"
_PREFIXES = ("NVIDIA_", "PREEMPTIBLE_NVIDIA_")
_SPOT_PREFIX = "PREEMPTIBLE_"
_METRICS: Mapping[str, str] = {
    "a2-highgpu": "NVIDIA_A100_GPUS",
    "a2-megagpu": "NVIDIA_A100_GPUS",
    "a2-ultragpu": "NVIDIA_A100_80GB_GPUS",
    "a3-highgpu": "NVIDIA_H100_GPUS",
    "a3-megagpu": "NVIDIA_H100_MEGA_GPUS",
    "a3-edgegpu": "NVIDIA_H100_GPUS",
    "a3-ultragpu": "NVIDIA_H200_GPUS",
    "a4-highgpu": "NVIDIA_B200_GPUS",
    "g2-standard": "NVIDIA_L4_GPUS",
}
"""The metric of a family's GPUs (Compute Engine guide, "Allocation quotas", "GPU quota")."""
_CONSOLE = "request more of {metric} in the Google Cloud console (IAM and admin, Quotas), {place}"
_OTHERS = {
    "A2_CPUS": "vCPU",
    "SSD_TOTAL_GB": "GB",
    "HDB_TOTAL_GB": "GB",
    "LOCAL_SSD_TOTAL_GB": "GB",
    "PREEMPTIBLE_LOCAL_SSD_GB": "GB",
    "IN_USE_ADDRESSES": "address",
}
"""Metrics of a region that also bound GPU VMs, with their unit (Compute Engine API, `Quota.metric`).

`SSD_TOTAL_GB` counts pd-balanced and pd-ssd disks, `HDB_TOTAL_GB` hyperdisk-balanced disks.
"""


def read(clients: GcpClients, region: str) -> list[ServiceQuota]:
    """Those of the region, then that of the project."""
    questions: Mapping[str, Callable[[], list[ServiceQuota]]] = {
        "region": lambda: _of_region(clients, region),
        "project": lambda: _of_project(clients, region),
    }
    return [
        quota for quotas in answered(questions, lambda question: questions[question]()).values() for quota in quotas
    ]


def _of_region(clients: GcpClients, region: str) -> list[ServiceQuota]:
    quotas = clients.ask(clients.of(RegionsClient).get, region=region).quotas
    return list(
        _limits(region, (quota for quota in quotas if quota.metric.startswith(_PREFIXES) or quota.metric in _OTHERS))
    )


def _of_project(clients: GcpClients, region: str) -> list[ServiceQuota]:
    quotas = clients.ask(clients.of(ProjectsClient).get).quotas
    return list(_limits(region, (quota for quota in quotas if quota.metric == OVERALL)))


def _limits(region: str, quotas: Iterable[Quota]) -> Iterator[ServiceQuota]:
    for quota in quotas:
        name = quota.metric.replace("_", " ").capitalize()
        yield ServiceQuota(
            region=region,
            code=quota.metric,
            name=name,
            limit=Decimal(str(quota.limit)),
            unit=_OTHERS.get(quota.metric, "GPU"),
        )


def check_overall(quotas: Iterable[Quota]) -> Iterator[AccountCheck]:
    """The quota over all regions and models."""
    fix = _CONSOLE.format(metric=OVERALL, place="global")
    yield from (_check(quota, 1, fix) for quota in quotas if quota.metric == OVERALL)


def check_region(quotas: Iterable[Quota], offered: Iterable[ProviderOffering], region: str) -> Iterator[AccountCheck]:
    """The quota of each family and market that the region offers."""
    reported = {quota.metric: quota for quota in quotas}
    for metric, least in _smallest(offered).items():
        if metric in reported:
            yield _check(reported[metric], least, _CONSOLE.format(metric=metric, place=region))
        else:
            yield not_checked(CheckSubject.QUOTA, metric, "Compute Engine does not report it: see Cloud Quotas")


def _smallest(offered: Iterable[ProviderOffering]) -> dict[str, int]:
    """GPUs of the smallest offered type, by metric. A family without a known metric stands for its own."""
    sizes: dict[str, int] = {}
    for offer in offered:
        family = offer.type.name.rpartition("-")[0]
        metric = _METRICS.get(family, f"GPUs of {family}")
        metric = metric if offer.market is Market.ON_DEMAND else _SPOT_PREFIX + metric
        sizes[metric] = min(sizes.get(metric, offer.type.gpu.count), offer.type.gpu.count)
    return dict(sorted(sizes.items()))


def _check(quota: Quota, least: int, fix: str) -> AccountCheck:
    limit, free = Decimal(str(quota.limit)), Decimal(str(quota.limit)) - Decimal(str(quota.usage))
    state = f"{plain(free)} of {plain(limit)} GPUs free"
    return check_quota(quota.metric, amount=free, least=least, state=state, fix=fix)
