"""The parts of google-cloud-compute that are used, loaded without the rest.

The package `google.cloud.compute_v1` imports its 110 services: three seconds of CPU and 50 MB of each process. It declares them lazy,
which Python heeds from 3.15 on (PEP 810); until then a package of the same name stands in, which has the modules and runs nothing.
"""

import sys
from importlib.util import find_spec, module_from_spec


def _without_services(package: str) -> None:
    """Puts a package in place that imports nothing by itself, unless another one is there already."""
    spec = find_spec(package)
    if package not in sys.modules and spec is not None:
        sys.modules[package] = module_from_spec(spec)


_without_services("google.cloud.compute_v1")

from google.cloud.compute_v1.services.accelerator_types import AcceleratorTypesClient  # noqa: E402  after the package that stands in
from google.cloud.compute_v1.services.disks import DisksClient  # noqa: E402
from google.cloud.compute_v1.services.firewalls import FirewallsClient  # noqa: E402
from google.cloud.compute_v1.services.global_operations import GlobalOperationsClient  # noqa: E402
from google.cloud.compute_v1.services.images import ImagesClient  # noqa: E402
from google.cloud.compute_v1.services.instances import InstancesClient  # noqa: E402
from google.cloud.compute_v1.services.machine_types import MachineTypesClient  # noqa: E402
from google.cloud.compute_v1.services.projects import ProjectsClient  # noqa: E402
from google.cloud.compute_v1.services.regions import RegionsClient  # noqa: E402
from google.cloud.compute_v1.services.reservations import ReservationsClient  # noqa: E402
from google.cloud.compute_v1.services.resource_policies import ResourcePoliciesClient  # noqa: E402
from google.cloud.compute_v1.services.zone_operations import ZoneOperationsClient  # noqa: E402
from google.cloud.compute_v1.types.compute import (  # noqa: E402
    AttachedDisk,
    BulkInsertInstanceResource,
    CustomerEncryptionKey,
    Disk,
    Firewall,
    Instance,
    InstancesSetLabelsRequest,
    Operation,
    Quota,
    Reservation,
    ResourcePolicy,
    ZoneSetLabelsRequest,
)

__all__ = [
    "AcceleratorTypesClient",
    "AttachedDisk",
    "BulkInsertInstanceResource",
    "CustomerEncryptionKey",
    "Disk",
    "DisksClient",
    "Firewall",
    "FirewallsClient",
    "GlobalOperationsClient",
    "ImagesClient",
    "Instance",
    "InstancesClient",
    "InstancesSetLabelsRequest",
    "MachineTypesClient",
    "Operation",
    "ProjectsClient",
    "Quota",
    "RegionsClient",
    "Reservation",
    "ReservationsClient",
    "ResourcePoliciesClient",
    "ResourcePolicy",
    "ZoneOperationsClient",
    "ZoneSetLabelsRequest",
]
