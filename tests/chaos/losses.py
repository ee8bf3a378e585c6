"""What the database has lost, and that nobody ended a VM for it."""

from collections.abc import Collection
from typing import Any

from app.domain.tags import LEASE, TENANT
from tests.e2e.cloud import Cloud
from tests.e2e.people import Tenant

_ASKED_TO_END = "user"
"""cloudsim's word for a VM that was ended by a call."""


class Losses:
    """`leases`: answered for, and then without a row. `vms`: their VMs that lived, with the lease of each.

    `ended_before`: VMs that had ended when the database lost commits.
    """

    def __init__(self, tenant: Tenant, cloud: Cloud) -> None:
        self._tenant = tenant
        self._cloud = cloud
        self.leases: set[str] = set()
        self.vms: dict[str, str] = {}
        self.ended_before: set[str] = set()

    def note(self, made: Collection[str], copies: Collection[str]) -> None:
        """Called when the API responds again. `made`: leases that were answered for. `copies`: VMs with copied tags.

        The clouds are asked before the database.
        """
        self.ended_before |= {vm["id"] for vm in self._cloud.vms(TENANT, self._tenant.id, alive=False)}
        living = self._cloud.vms(TENANT, self._tenant.id, alive=True)
        alive = [vm for vm in living if vm["id"] not in copies and not vm["ending_at"]]
        there = {lease["id"] for lease in self._tenant.leases()}
        self.leases |= set(made) - there
        self.vms |= {vm["id"]: vm["tags"][LEASE] for vm in alive if vm["tags"][LEASE] not in there}

    def ended(self, over: Collection[str]) -> list[str]:
        """VMs of lost rows that were ended by a call, though their leases are not among `over`, which may end."""
        vms: dict[str, Any] = {vm["id"]: vm for vm in self._cloud.vms(TENANT, self._tenant.id)}
        doomed = [vms[vm_id] for vm_id, lease_id in self.vms.items() if lease_id not in over and vm_id in vms]
        return [f"{vm['id']} of {vm['tags'][LEASE]}" for vm in doomed if vm["end_reason"] == _ASKED_TO_END]
