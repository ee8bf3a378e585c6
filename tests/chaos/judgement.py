"""What is left of a storm, and whether anything of it is wrong."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.domain.tags import LEASE, SHARED, TENANT, VOLUME
from app.local.waiting import wait_until
from bench.three_clouds import Installation, figures, on_the_way, wait_for_none
from tests.chaos.course import Course
from tests.chaos.duty import Duty
from tests.chaos.group_truth import GroupTruth
from tests.chaos.losses import Losses
from tests.chaos.money import Purse
from tests.chaos.volume_checks import VolumeChecks
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant
from tests.e2e.truth import differences, own_id

_QUIET_SECONDS = 300.0
_CYCLE_SECONDS = 20.0
_LAST_AT_REST = 5
_COPIES_SECONDS = 90.0
"""The grace, and the listings before and after it."""
_WITH_ITS_GROUP = frozenset({"group_member_lost", "released_by_user"})
"""Reasons of a member that ends with its group. Before a group is formed its reason is that of the ended member."""


class Judge:
    """Waits for quiet, then for the truth. At last everything is released, and nothing may be left."""

    def __init__(
        self,
        installation: Installation,
        tenant: Tenant,
        course: Course,
        losses: Losses,
        duty: Duty,
        purse: Purse,
        groups: GroupTruth,
        *,
        volumes: VolumeChecks,
        hostile: Losses,
    ) -> None:
        self._installation = installation
        self._tenant = tenant
        self._course = course
        self._losses = losses
        self._duty = duty
        self._purse = purse
        self._groups = groups
        self._volumes = volumes
        self._hostile = hostile
        self._restless: dict[str, float] = {}

    def judge(self, asked: set[str], clock: Callable[[], float]) -> dict[str, Any]:
        """`asked`: the leases of all requests. `clock`: seconds from the start of the storm."""
        stuck = self._wait_for_quiet(clock)
        quiet = clock() - self._course.last_fault
        copies = wait_for_none(self._living_copies, _COPIES_SECONDS)
        found = self._tenant.leases()
        there, asked = Counter(lease["id"] for lease in found), asked | set(self._course.extra)
        adopted = self._adopted()
        checks: dict[str, list[str]] = {
            "leases lost without a reason": sorted(asked - set(there) - self._losses.leases),
            "leases that nobody asked for": sorted(set(there) - asked - set(adopted.values()) - _added(found)),
            "leases stuck": stuck,
            "orphans, ghosts, twins, disks, invariants": self._differences(),
            "VMs of lost rows ended": self._losses.ended(self._over, self._ended_by_others()),
            "copies of tags not ended": list(copies),
            "copies of tags adopted": sorted(self._course.copies & set(adopted)),
            "losses without a hold": self._course.without_hold,
            **self._groups.checks(),
            **self._volumes.checks(),
        }
        group_figures = self._groups.figures()
        last_first = dict(sorted(self._restless.items(), key=lambda one: -one[1]))
        evidence = self._evidence(found, {**checks, "last at rest": list(last_first)[:_LAST_AT_REST]})
        late = {**self._release_all(), **self._groups.checks_after_release()}
        ended = self._tenant.leases()
        late |= self._purse.checks(ended, longest_hold=max(self._duty.holds, default=0.0))
        evidence += self._evidence(ended, late)
        return {
            "seconds": round(clock()),
            "happened": dict(self._course.happened),
            "rows_lost": len(self._losses.leases),
            "vms_without_row": len(self._losses.vms),
            "vms_without_lease": self._losses.without_lease,
            "ended_by_operator": len(self._duty.ended),
            "holds": self._duty.holds,
            "hold_reasons": self._duty.reasons,
            "checks": {**checks, **late},
            "seconds_until_the_last_fault_ended": round(self._course.last_fault),
            "quiet_seconds_after_the_last_fault": max(0.0, round(quiet, 1)),
            "restless_until": last_first,
            **group_figures,
            **self._volumes.figures(),
            **figures(found),
            **self._purse.figures(ended),
            "acts": self._course.acts,
            "evidence": evidence,
        }

    def _wait_for_quiet(self, clock: Callable[[], float]) -> list[str]:
        """What is still on its way after five minutes; a hold and a group that moves count too.

        Notes how long after the last fault each of them was last seen so.
        """

        def still() -> Sequence[str]:
            hold = self._installation.operator.hold()
            found = [
                *(f"{lease['id']} is {lease['state']}" for lease in on_the_way(self._tenant)),
                *([f"on hold: {hold['reason']}"] if hold else []),
                *self._groups.restless(),
            ]
            self._restless |= dict.fromkeys(found, round(clock() - self._course.last_fault, 1))
            return found

        return list(wait_for_none(still, seconds=_QUIET_SECONDS))

    def _ended_by_others(self) -> set[str]:
        """VMs that the operator ended, somebody at the cloud, or the provider."""
        return self._duty.ended | self._course.stopped

    def _over(self) -> set[str]:
        """Leases of which a lost VM may end, by now.

        Somebody cancelled the lease or its group or shrank the group, the provider interrupted the VM, its deadline tag is
        that of a spend cap, or its group has lost other members.
        """
        course, group_of = self._course, self._losses.group_of
        leases = self._tenant.leases()
        codes = {lease["id"]: (lease["reason"] or {}).get("code") for lease in leases}
        taken_from = {lease["group_id"] for lease in leases if self._was_taken(lease)}
        incomplete = {
            lease_id
            for lease_id, group in group_of.items()
            if group in taken_from and codes.get(lease_id) in _WITH_ITS_GROUP
        }
        capped = course.capped | {lease_id for lease_id, group in group_of.items() if group in course.groups_capped}
        released = {lease_id for lease_id, group in group_of.items() if group in course.groups_released}
        reached = {lease_id for lease_id in capped if codes.get(lease_id) in {"spend_cap", "expired"}}
        interrupted = {lease_id for lease_id, code in codes.items() if code == "interrupted"}
        shrunk = {
            lease_id
            for lease_id, group in group_of.items()
            if group in course.groups_shrunk and codes.get(lease_id) == "group_shrunk"
        }
        return course.cancelled | released | shrunk | reached | interrupted | incomplete

    def _was_taken(self, lease: Json) -> bool:
        """Whether something of the run, and not the loss of rows, ended the lease."""
        of_itself = (lease["reason"] or {}).get("code") in {"interrupted", "spend_cap", "expired"}
        stopped = lease["placement"] is not None and own_id(lease) in self._course.stopped
        return of_itself or stopped or lease["id"] in self._course.cancelled

    def _living_copies(self) -> list[str]:
        alive = {vm["id"] for vm in self._installation.cloud.vms(TENANT, self._tenant.id, alive=True)}
        return sorted(alive & self._course.copies)

    def _adopted(self) -> dict[str, str]:
        """The leases that were rebuilt, by the id of their VM at the cloud."""
        orphans = self._installation.operator.orphans(gone=True)
        return {
            one["instance_id"].rpartition(":")[2]: str(one["lease_id"]) for one in orphans if one["state"] == "adopted"
        }

    def _release_all(self) -> dict[str, list[str]]:
        tenant, cloud = self._tenant, self._installation.cloud
        for group in tenant.groups("queued", "forming", "active", "degraded"):
            tenant.change_group_at_any_rate(group["id"], None)
        tenant.release_all()
        wait_for_none(lambda: [one for one in tenant.groups() if not one["terminal"]], _CYCLE_SECONDS)
        of_volumes = self._volumes.checks_after_release()
        used = wait_for_none(lambda: [*tenant.used().items()], _CYCLE_SECONDS)
        left = wait_for_none(lambda: self._own(cloud.resources_of_tenant(tenant.id)), _CYCLE_SECONDS)
        return {
            **of_volumes,
            "quota left": [f"{resource} {amount}" for resource, amount in used],
            "volumes and interfaces left": [str(thing) for thing in left],
            "differences after all ended": self._differences(),
        }

    def _evidence(self, leases: Sequence[Json], checks: Mapping[str, Sequence[str]]) -> list[Json]:
        """What both sides know of each lease that a check names, and how observation goes."""
        lines = [line for found in checks.values() for line in found]
        named = [lease["id"] for lease in leases if any(lease["id"] in line for line in lines)]
        if not lines:
            return []
        vms = self._installation.cloud.vms(TENANT, self._tenant.id)
        about: list[Json] = [
            {
                "lease": self._tenant.lease(lease_id),
                "attempts": self._tenant.attempts(lease_id),
                "events": self._tenant.items(f"/v1/leases/{lease_id}/events"),
                "vms": [vm for vm in vms if vm["tags"].get(LEASE) == lease_id],
            }
            for lease_id in named
        ]
        operator = self._installation.operator
        return [*about, *operator.get("/v1/ops/accounts")["items"], *operator.orphans(gone=True)]

    def _own(self, resources: Sequence[Json]) -> list[Json]:
        """Resources of single leases: what members share ends later. A disk whose row was lost is data, and stays."""
        return [
            one
            for one in resources
            if SHARED not in one["tags"] and one["tags"].get(VOLUME) not in self._volumes.unknown
        ]

    def _differences(self) -> list[str]:
        one = self._installation
        # a hostile tenant switches its VMs off at any time: whose row was lost may have ended since
        forgotten = (
            self._losses.forgotten(self._ended_by_others()) | self._hostile.ended_before | self._hostile.vms.keys()
        )
        found: list[str] = []

        def differ() -> bool:
            found[:] = differences(
                one.operator, one.cloud, one.database_url, forgotten=forgotten, excused=self._volumes.excused
            )
            return not found

        wait_until(differ, timeout=_CYCLE_SECONDS, poll=0.5)
        return found


def _added(leases: Sequence[Json]) -> set[str]:
    """Members that replace others or that a group has grown by. What groups have is checked by rank."""
    return {lease["id"] for lease in leases if lease["group_id"] is not None}
