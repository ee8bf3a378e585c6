"""The project's own limits on GPUs, per region and model, and over all regions."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from workers.providers.base import ServiceQuota
from workers.providers.gcp.clients import Clients
from workers.providers.gcp.sdk import ProjectsClient, Quota, RegionsClient

_OVERALL = "GPUS_ALL_REGIONS"
_PREFIXES = ("NVIDIA_", "PREEMPTIBLE_NVIDIA_")


def read(clients: Clients, region: str) -> list[ServiceQuota]:
    """Those of the region, then that of the project, in GPUs."""
    regional = clients.ask(clients.of(RegionsClient).get, region=region)
    project = clients.ask(clients.of(ProjectsClient).get)
    return [
        *_limits(region, (one for one in regional.quotas if one.metric.startswith(_PREFIXES))),
        *_limits(region, (one for one in project.quotas if one.metric == _OVERALL)),
    ]


def _limits(region: str, quotas: Iterable[Quota]) -> Iterator[ServiceQuota]:
    for quota in quotas:
        name = quota.metric.replace("_", " ").capitalize()
        yield ServiceQuota(region=region, code=quota.metric, name=name, limit=Decimal(str(quota.limit)), unit="GPU")
