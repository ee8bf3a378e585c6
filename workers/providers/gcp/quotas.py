"""The project's own limits on GPUs, per region and model, and over all regions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal

from workers.providers.common.batch import answered
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.sdk import ProjectsClient, Quota, RegionsClient
from workers.providers.types import ServiceQuota

_OVERALL = "GPUS_ALL_REGIONS"
_PREFIXES = ("NVIDIA_", "PREEMPTIBLE_NVIDIA_")


def read(clients: GcpClients, region: str) -> list[ServiceQuota]:
    """Those of the region, then that of the project, in GPUs."""
    questions: Mapping[str, Callable[[], list[ServiceQuota]]] = {
        "region": lambda: _of_region(clients, region),
        "project": lambda: _of_project(clients, region),
    }
    return [quota for quotas in answered(questions, lambda one: questions[one]()).values() for quota in quotas]


def _of_region(clients: GcpClients, region: str) -> list[ServiceQuota]:
    quotas = clients.ask(clients.of(RegionsClient).get, region=region).quotas
    return list(_limits(region, (one for one in quotas if one.metric.startswith(_PREFIXES))))


def _of_project(clients: GcpClients, region: str) -> list[ServiceQuota]:
    quotas = clients.ask(clients.of(ProjectsClient).get).quotas
    return list(_limits(region, (one for one in quotas if one.metric == _OVERALL)))


def _limits(region: str, quotas: Iterable[Quota]) -> Iterator[ServiceQuota]:
    for quota in quotas:
        name = quota.metric.replace("_", " ").capitalize()
        yield ServiceQuota(region=region, code=quota.metric, name=name, limit=Decimal(str(quota.limit)), unit="GPU")
