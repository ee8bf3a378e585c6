"""What the database has lost, and that gpulease ended no VM for it."""

import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import psycopg

from app.domain.tags import BATCH, GROUP, LEASE, TENANT
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Tenant

_ASKED_TO_END = "user"
"""cloudsim's word for a VM that was ended by a call."""


class Losses:
    """`leases`: answered for, and then without a row. `vms`: their VMs that lived, with the lease of each, or with the
    batch of a VM that had no tags of its own yet. `groups`: lost groups. `group_of`: the group of a lost lease, by its VM.

    `ended_before`: VMs that had ended when the database lost commits. `groups_before`: groups that were alive then, with a
    state from before. `last_at`: when commits were lost last.
    """

    def __init__(self, tenant: Tenant, cloud: Cloud, database_url: str) -> None:
        self._tenant = tenant
        self._cloud = cloud
        self._database_url = database_url
        self.leases: set[str] = set()
        self.vms: dict[str, str] = {}
        self.groups: set[str] = set()
        self.group_of: dict[str, str] = {}
        self.ended_before: set[str] = set()
        self.groups_before: set[str] = set()
        self.last_at: datetime | None = None

    def note(self, made: Collection[str], groups: Collection[str], copies: Collection[str]) -> None:
        """Called when the API responds again. `made`, `groups`: leases and groups that were answered for.

        `copies`: VMs with copied tags. The clouds are asked before the database.
        """
        self.ended_before |= {vm["id"] for vm in self._cloud.vms(TENANT, self._tenant.id, alive=False)}
        living = self._cloud.vms(TENANT, self._tenant.id, alive=True)
        alive = [vm for vm in living if vm["id"] not in copies and not vm["ending_at"]]
        there = {lease["id"] for lease in self._tenant.leases()} | self._batches()
        self.leases |= set(made) - there
        lost = [vm for vm in alive if owner(vm) not in there]
        self.vms |= {vm["id"]: owner(vm) for vm in lost}
        self.group_of |= {owner(vm): vm["tags"][GROUP] for vm in lost if GROUP in vm["tags"]}
        kept = {str(group["id"]) for group in self._tenant.groups()}
        self.groups |= set(groups) - kept
        self.groups_before |= kept
        self.last_at = datetime.fromtimestamp(time.time(), UTC)

    def _batches(self) -> set[str]:
        with psycopg.connect(self._database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            return {str(row[0]) for row in connection.execute("SELECT id FROM launch_batch").fetchall()}

    @property
    def without_lease(self) -> int:
        """How many living VMs named a lost batch and no lease: no adoption can rebuild their leases."""
        return sum(not owned.startswith("lease_") for owned in self.vms.values())

    def ended(self, over: Collection[str], by_operator: Collection[str]) -> list[str]:
        """VMs of lost rows that were ended by a call.

        Leaves out leases that are `over`, which may end, and VMs that the operator ended. Where a batch was lost and its
        leases were not, the repeated call finds the VM, which then names its lease.
        """
        vms: dict[str, Any] = {vm["id"]: vm for vm in self._cloud.vms(TENANT, self._tenant.id)}
        of_lost_rows = [vms[vm_id] for vm_id in self.vms if vm_id in vms]
        doomed = [vm for vm in of_lost_rows if not {self.vms[vm["id"]], owner(vm)} & set(over)]
        return [
            f"{vm['id']} of {owner(vm)}"
            for vm in doomed
            if vm["end_reason"] == _ASKED_TO_END and vm["id"] not in by_operator
        ]


def owner(vm: Json) -> str:
    """The lease of a VM, or the batch of a VM that has no tags of its own yet."""
    return str(vm["tags"].get(LEASE) or vm["tags"][BATCH])
