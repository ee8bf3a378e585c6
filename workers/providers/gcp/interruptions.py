"""Spot VMs that Google interrupts.

Only the VM receives the notice, 30 seconds before the end (Compute Engine guide, "Spot VMs": preemption process). Other
programs see the operation `compute.instances.preempted`, usually when the VM is already stopping.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from app.domain import tags
from app.domain.inventory import ALIVE
from app.domain.leases import VmState
from workers.providers.common.batch import leave_out
from workers.providers.common.regions import Regions
from workers.providers.gcp import instances, operations, resource_tags
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.vms import from_instance, time_of
from workers.providers.types import Interruption

NOTICE = timedelta(seconds=30)
_RECENT = timedelta(minutes=10)
_LEAVING = ALIVE | {VmState.ENDING}


def interruptions(
    clients: GcpClients, regions: frozenset[str], installation: str, now: datetime
) -> Iterator[Interruption]:
    """Interruptions of this installation's VMs that Google still lists.

    Reads one list of preemptions, and further lists only where a preemption is recent.
    """
    preempted = dict(_taken(clients, regions, now))
    scan = Regions(regions)
    for region in scan.readable:
        with scan.reading(region):
            readable, failed = instances.with_ids(clients, region, map(str, preempted))
            leave_out(readable, failed)
            for key, instance in readable.items():
                ours = instance.labels.get(tags.INSTALLATION) == resource_tags.exact(installation)
                if ours and from_instance(instance, region).state in _LEAVING:
                    at = preempted[key]
                    yield Interruption(vm_id=str(key), notice_at=at, deadline_at=at + NOTICE, action="terminate")


def _taken(clients: GcpClients, regions: frozenset[str], now: datetime) -> Iterator[tuple[Id, datetime]]:
    for operation in operations.preemptions(clients, regions):
        at = time_of(operation.insert_time)
        if at is not None and at > now - _RECENT:
            target = Id(last(operation.zone), last(operation.target_link), str(operation.target_id))
            yield target, at
