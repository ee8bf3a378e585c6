"""What the database has lost, and that gpulease ended no VM for it."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

import psycopg

from app.domain.tags import ATTEMPT, BATCH, GROUP, LEASE, TENANT, VOLUME
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Tenant

_ASKED_TO_END = "user"
"""cloudsim's word for a VM that was ended by a call."""
_LAUNCHES = """
    SELECT lease_id, n::text, first_sent_at IS NOT NULL FROM attempt
    UNION ALL SELECT id, '', last_sent_at IS NOT NULL FROM launch_batch
"""


class Losses:
    """`leases`: answered for, and then without a row. `vms`: VMs that lived while the row of their attempt or batch was
    lost, with the lease of each, or with the batch of a VM that had no tags of its own yet. `groups`: lost groups. `group_of`: the group of a lost lease, by its VM.

    `unsent`: VMs that lived while the row of their launch said that its call was not sent yet. `ended_before`: VMs that had ended, or were ending, when the database lost commits. `groups_before`: groups that were alive then, with a
    state from before. `last_at`: when commits were lost last. `volumes`: whose rows were lost. `volumes_set_back`: those that were to be
    deleted before. `rebuilt`: leases without a row, which the operator has rebuilt without their volumes.
    """

    def __init__(self, tenant: Tenant, cloud: Cloud, database_url: str, clock: Callable[[], datetime]) -> None:
        self._tenant = tenant
        self._cloud = cloud
        self._database_url = database_url
        self._clock = clock
        self.leases: set[str] = set()
        self.vms: dict[str, str] = {}
        self.unsent: set[str] = set()
        self.groups: set[str] = set()
        self.group_of: dict[str, str] = {}
        self.ended_before: set[str] = set()
        self.groups_before: set[str] = set()
        self.last_at: datetime | None = None
        self.volumes: set[str] = set()
        self.volumes_set_back: set[str] = set()
        self.rebuilt: set[str] = set()

    def note(self, made: Collection[str], groups: Collection[str], copies: Collection[str]) -> None:
        """Called when the API responds again. `made`, `groups`: leases and groups that were answered for.

        `copies`: VMs with copied tags. The clouds are asked before the database.
        """
        vms = self._cloud.vms(TENANT, self._tenant.id)
        self.ended_before |= {vm["id"] for vm in vms if vm["ending_at"] or not vm["alive"]}
        alive = [vm for vm in vms if vm["id"] not in self.ended_before.union(copies)]
        self.leases |= set(made) - {lease["id"] for lease in self._tenant.leases()}
        launched = self._launched()
        lost = [vm for vm in alive if _launch(vm) not in launched]
        self.unsent |= {vm["id"] for vm in alive if launched.get(_launch(vm)) is False}
        self.vms |= {vm["id"]: owner(vm) for vm in lost}
        self.group_of |= {owner(vm): vm["tags"][GROUP] for vm in lost if GROUP in vm["tags"]}
        kept = {str(group["id"]) for group in self._tenant.groups()}
        self.groups |= set(groups) - kept
        self.groups_before |= kept
        self.last_at = self._clock()

    def note_volumes(self, made: Collection[str], deleted: Collection[str]) -> None:
        """The same for volumes: `made` were answered for, of `deleted` somebody requested the end."""
        disks = [disk for disk in self._cloud.disks() if disk["tags"].get(TENANT) == self._tenant.id]
        with psycopg.connect(self._database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            rows = {str(row[0]) for row in connection.execute("SELECT id FROM volume").fetchall()}
            leases = {str(row[0]) for row in connection.execute("SELECT id FROM lease").fetchall()}
        of_disks = {disk["tags"][VOLUME] for disk in disks if VOLUME in disk["tags"]}
        self.volumes |= of_disks.union(made) - rows
        gone = {disk["tags"].get(VOLUME) for disk in disks if disk["deleted_at"]}
        self.volumes_set_back |= (gone | set(deleted)) & rows
        self.rebuilt |= {owner(vm) for vm in self._cloud.vms(TENANT, self._tenant.id)} - leases

    def _launched(self) -> dict[tuple[str, str], bool]:
        """What the database knows of launches: lease and number of each attempt, and each batch, and whether its call was sent."""
        with psycopg.connect(self._database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            return {(str(owned), str(n)): bool(sent) for owned, n, sent in connection.execute(_LAUNCHES).fetchall()}

    def forgotten(self, by_others: Collection[str]) -> set[str]:
        """VMs beside which their lease may have another one for the same attempt, since nobody knew of that launch.

        They had ended when commits were lost, or were ended `by_others` than gpulease itself, which never adopted them.
        """
        return self.ended_before | ((self.vms.keys() | self.unsent) & set(by_others))

    @property
    def without_lease(self) -> int:
        """How many living VMs named a lost batch and no lease: no adoption can rebuild their leases."""
        return sum(not owned.startswith("lease_") for owned in self.vms.values())

    def ended(self, over: Callable[[], Collection[str]], by_others: Collection[str]) -> list[str]:
        """VMs of lost rows that gpulease ended by a call.

        Leaves out leases that are `over`, which may end, VMs that somebody else ended, and those that failed at their boot. Asks for the leases after the VMs: a
        lease may reach its spend cap at this moment. Where a batch was lost and its
        leases were not, the repeated call finds the VM, which then names its lease.
        """
        vms: dict[str, Any] = {vm["id"]: vm for vm in self._cloud.vms(TENANT, self._tenant.id)}
        of_lost_rows = [vms[vm_id] for vm_id in self.vms if vm_id in vms]
        leases = set(over())
        doomed = [vm for vm in of_lost_rows if not {self.vms[vm["id"]], owner(vm)} & leases]
        return [
            f"{vm['id']} of {owner(vm)}"
            for vm in doomed
            if vm["end_reason"] == _ASKED_TO_END and vm["boot_failure"] is None and vm["id"] not in by_others
        ]


def _launch(vm: Json) -> tuple[str, str]:
    """What a VM says of its launch: lease and attempt, or the batch of a VM that has no tags of its own yet."""
    return owner(vm), str(vm["tags"].get(ATTEMPT, ""))


def owner(vm: Json) -> str:
    """The lease of a VM, or the batch of a VM that has no tags of its own yet."""
    return str(vm["tags"].get(LEASE) or vm["tags"][BATCH])
