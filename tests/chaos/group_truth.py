"""Whether the groups of a storm kept their promises: what the API shows, what events record, and what the clouds had."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from app.domain.tags import GROUP, SHARED, TENANT
from bench.three_clouds import Installation, wait_for_none
from tests.chaos.course import Course
from tests.chaos.losses import Losses
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant

_FORMED = ("active", "degraded")
_LEFTOVER_SECONDS = 150.0
"""A sweep removes what a group shared. It runs every ten inventories (20 s), and waits for the grace period of a lost group.

Each worker remembers for itself what it has seen. Of five sweeps by four workers, two are by the same one.
"""

# The state of each member is its newest event of a state before the group's first event `active` or `degraded`.
_FORMATIONS = """
WITH formed AS (
    SELECT DISTINCT ON (data ->> 'group_id') data ->> 'group_id' AS id, row_id FROM event
    WHERE type IN ('group.active', 'group.degraded') ORDER BY data ->> 'group_id', row_id)
SELECT g.id, g.min_size, count(*) FILTER (WHERE s.type = 'lease.active') AS ready
FROM formed f JOIN lease_group g ON g.id = f.id JOIN lease l ON l.group_id = g.id
LEFT JOIN LATERAL (
    SELECT e.type FROM event e
    WHERE e.lease_id = l.id AND e.row_id < f.row_id AND e.type IN ('lease.queued', 'lease.provisioning', 'lease.booting',
        'lease.active', 'lease.releasing', 'lease.released', 'lease.failed')
    ORDER BY e.row_id DESC LIMIT 1) s ON TRUE
GROUP BY g.id, g.min_size
"""
_POOLS = """
SELECT data ->> 'group_id' AS id, data -> 'pool' AS pool, at FROM event WHERE type = 'group.forming' ORDER BY row_id
"""
_BATCHES = "SELECT count(*), coalesce(max(slots), 0) FROM launch_batch"


class GroupTruth:
    """The groups of one tenant."""

    def __init__(self, installation: Installation, tenant: Tenant, course: Course, losses: Losses) -> None:
        self._cloud = installation.cloud
        self._database_url = installation.database_url
        self._tenant = tenant
        self._course = course
        self._losses = losses
        self.shared: set[str] = set()

    def note_shared(self) -> None:
        """Remembers which kinds of shared resources there are, so that a run without any is noticed."""
        found = self._cloud.resources_of_tenant(self._tenant.id)
        self.shared |= {f"{one['provider']} {one['kind']}" for one in found if SHARED in one["tags"]}

    def restless(self) -> list[str]:
        """Groups that are still to move."""
        return [f"{one['id']} is {one['state']}" for one in self._tenant.groups() if not _is_at_rest(one)]

    def checks(self) -> dict[str, list[str]]:
        """When everything is quiet."""
        groups = {str(one["id"]): one for one in self._tenant.groups()}
        asked = set(self._course.groups)
        return {
            "groups lost without a reason": sorted(asked - groups.keys() - self._losses.groups),
            "groups that nobody asked for": sorted(groups.keys() - asked),
            "groups stuck": [f"{one['id']} is {one['state']}" for one in groups.values() if not _is_at_rest(one)],
            "groups below their least size": [
                f"{one['id']} is {one['state']} with {one['ready']} of {one['size']}, {one['min_size']} are needed"
                for one in groups.values()
                if one["state"] in _FORMED
                and one["ready"] < (one["size"] if one["state"] == "active" else one["min_size"])
            ],
            "ranks with two leases": list(self._doubled(groups)),
            "groups formed with too few members": self._formed_too_small(),
            "VMs held while a group forms elsewhere": list(self._held_beside()),
        }

    def checks_after_release(self) -> dict[str, list[str]]:
        """When every group and lease was released."""

        def left() -> Sequence[Json]:
            return [one for one in self._cloud.resources_of_tenant(self._tenant.id) if SHARED in one["tags"]]

        return {
            "groups not ended": [
                f"{one['id']} is {one['state']}" for one in self._tenant.groups() if not one["terminal"]
            ],
            "shared resources left": [str(one) for one in wait_for_none(left, _LEFTOVER_SECONDS)],
        }

    def figures(self) -> dict[str, Any]:
        """How the groups ended up, and how many batches there were."""
        groups = self._tenant.groups()
        [(batches, largest)] = self._rows(_BATCHES)
        return {
            "groups": dict(Counter(one["state"] for one in groups)),
            "groups_formed": sum(one["formed_at"] is not None for one in groups),
            "pools_failed": sum(len(one["pools_tried"]) for one in groups),
            "largest_group": max((one["size"] for one in groups), default=0),
            "groups_lost": len(self._losses.groups),
            "bursts": self._course.bursts,
            "batches": batches,
            "largest_batch": largest,
            "shared_kinds": sorted(self.shared),
        }

    def _doubled(self, groups: dict[str, Json]) -> Iterator[str]:
        """Ranks with more than one lease that runs, and live groups with a rank without any."""
        ranks: dict[str, Counter[int]] = defaultdict(Counter)
        for lease in self._tenant.leases("!terminal"):
            if lease["group_id"] is not None and lease["state"] != "releasing":
                ranks[lease["group_id"]][lease["rank"]] += 1
        for group_id, counted in ranks.items():
            yield from (f"{group_id} has {n} leases at rank {rank}" for rank, n in counted.items() if n > 1)
        for group in groups.values():
            if group["state"] == "active" and sorted(ranks[group["id"]]) != list(range(group["size"])):
                yield f"{group['id']} of {group['size']} has the ranks {sorted(ranks[group['id']])}"

    def _formed_too_small(self) -> list[str]:
        """By events. A group that a loss has set back lacks some of them."""
        return [
            f"{group_id} formed with {ready} members, {least} are needed"
            for group_id, least, ready in self._rows(_FORMATIONS)
            if ready < least and group_id not in self._losses.groups_before
        ]

    def _held_beside(self) -> Iterator[str]:
        """VMs of a group in another place than its pool, alive after the pool was chosen. What a loss set back is left out."""
        vms: dict[str, list[Json]] = defaultdict(list)
        for vm in self._cloud.vms(TENANT, self._tenant.id):
            if GROUP in vm["tags"] and vm["id"] not in self._course.copies:
                vms[vm["tags"][GROUP]].append(vm)
        for group_id, pool, at in self._rows(_POOLS):
            for vm in vms[group_id]:
                launched = datetime.fromisoformat(vm["launched_at"])
                is_set_back = self._losses.last_at is not None and launched <= self._losses.last_at
                ended = None if vm["ended_at"] is None else datetime.fromisoformat(vm["ended_at"])
                is_held = launched < at and (ended is None or ended > at)
                if is_held and not is_set_back and not _is_in(vm, pool):
                    yield f"{vm['id']} of {group_id} in {vm['zone']} while it forms in {pool} at {at}"

    def _rows(self, query: LiteralString) -> list[Any]:
        with psycopg.connect(self._database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            return connection.execute(query).fetchall()


def _is_at_rest(group: Json) -> bool:
    is_whole = group["state"] == "degraded" and group["ready"] >= group["min_size"]
    return group["state"] in ("active", "ended") or is_whole


def _is_in(vm: Json, pool: Json) -> bool:
    place = (vm["region"], vm["instance_type"], vm["market"])
    return place == (pool["region"], pool["instance_type"], pool["market"]) and pool["zone"] in (None, vm["zone"])
