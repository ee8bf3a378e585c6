"""What must hold for groups: judged after each transaction of a coordinator, before each VM is made, and at listings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import text

from app.domain.groups.groups import GroupPlacement, GroupState
from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.processes import Grounds
from tests.simulation.restore import Restore

_GROUPS = """
    SELECT json_agg(json_build_array(g.id, g.state, g.size, g.min_size, g.pool_started_at::text, g.formed_at::text, m.members)
                    ORDER BY g.id)
    FROM lease_group g LEFT JOIN LATERAL (
        SELECT json_agg(json_build_array(l.id, l.rank, l.desired = 'run', l.state = 'active' AND l.desired = 'run'
                            AND NOT l.group_retreat AND l.group_pool = g.pool) ORDER BY l.id) AS members
        FROM lease l WHERE l.group_id = g.id AND l.ended_at IS NULL) m ON true
    """
_GROUP_OF = text("SELECT g.id, g.placement FROM lease l JOIN lease_group g ON g.id = l.group_id WHERE l.id = :lease")
_FORMED = frozenset({GroupState.ACTIVE, GroupState.DEGRADED})
_LEAVES_ACTIVE = 4
"""A group that is active with too few members is degraded or ends within so many claims and a minute."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A lease that has not ended. `ready`: it is active in the group's pool, and wanted."""

    lease_id: str
    rank: int
    wanted: bool
    ready: bool


@dataclass(frozen=True, slots=True)
class _Group:
    id: str
    state: GroupState
    size: int
    min_size: int
    pool_started_at: str | None
    formed_at: str | None
    members: tuple[_Member, ...]

    @property
    def ready(self) -> tuple[int, ...]:
        """The ranks of ready members."""
        return tuple(sorted(member.rank for member in self.members if member.ready))


class GroupPromises:
    """A restored database may show an earlier state of a group than its VMs. After a restore nothing is judged here."""

    def __init__(self, grounds: Grounds, restore: Restore) -> None:
        self._grounds = grounds
        self._restore = restore
        self._known: dict[str, _Group] = {}
        self._group_of: dict[str, tuple[str, str] | None] = {}
        self._short_since: dict[str, float] = {}

    def check_steps(self) -> None:
        """After a transaction of a coordinator."""
        if self._restore.happened:
            return
        for group in self._groups():
            before = self._known.get(group.id)
            self._known[group.id] = group
            _check_ranks(group)
            self._check_formed(group, before)
            started = group.pool_started_at is not None and (
                before is None or before.pool_started_at != group.pool_started_at
            )
            if started:
                self._grounds.scheduler.count("group: pool tried")
                self._check_no_vm(group, "tries another pool")
            if group.state is GroupState.ENDED and (before is None or before.state is not GroupState.ENDED):
                self._grounds.scheduler.count("group: ended")
                self._check_ended(group)

    def check_made(self, cloud: Cloud, machine: Machine) -> None:
        """Before a VM is made: those of the other members are in the same pool."""
        group = self._of(machine)
        if group is None or machine.late or self._restore.happened:
            return
        group_id, placement = group
        pool = _pool(cloud, machine, placement)
        for other_cloud, other in self._living(group_id):
            if _pool(other_cloud, other, placement) != pool:
                raise Violation(f"{group_id} gets {machine.id} in {pool} while it has {other.id} of {other.key}")

    def check_idle(self) -> None:
        """Between the steps: a group does not stay active with fewer members than it needs."""
        now, claim = self._grounds.scheduler.now, self._grounds.settings.claim_seconds
        for group in () if self._restore.happened else self._groups():
            if group.state is not GroupState.ACTIVE or len(group.ready) >= group.min_size:
                self._short_since.pop(group.id, None)
                continue
            since = self._short_since.setdefault(group.id, now)
            if now - since > _LEAVES_ACTIVE * claim + 60:
                raise Violation(f"{group.id} is active since {since:.0f} with the members {group.ready}")

    # --- the rules ----------------------------------------------------------------------------------------

    def _check_formed(self, group: _Group, before: _Group | None) -> None:
        formed_before = before is not None and before.formed_at is not None
        if group.formed_at is not None and not formed_before:
            self._grounds.scheduler.count(f"group: formed {group.state}")
            if len(group.ready) < group.min_size:
                raise Violation(f"{group.id} is {group.state} with the members {group.ready}, needs {group.min_size}")
            self._check_vms(group)
        became_active = group.state is GroupState.ACTIVE and (before is None or before.state is not GroupState.ACTIVE)
        if became_active and group.ready != tuple(range(group.size)):
            raise Violation(f"{group.id} becomes active with the members {group.ready} of {group.size}")
        if group.formed_at is None and group.state in _FORMED:
            raise Violation(f"{group.id} is {group.state} and was never formed")

    def _check_vms(self, group: _Group) -> None:
        """Each ready member has had a VM that was ready, by the cloud's word or by a proof of its GPUs."""
        made = {
            machine.key[0]
            for _, machine in self._machines()
            if not machine.copied and (machine.ready_from < 1e12 or (machine.gpus and machine.gpus.delivered))
        }
        without = [member.lease_id for member in group.members if member.ready and member.lease_id not in made]
        if without:
            raise Violation(f"{group.id} is formed, and {without} have no VM")

    def _check_no_vm(self, group: _Group, when: str) -> None:
        for _, machine in self._living(group.id):
            raise Violation(f"{group.id} {when}, and {machine.id} of {machine.key} lives")

    def _check_ended(self, group: _Group) -> None:
        if group.members:
            raise Violation(f"{group.id} has ended, and {group.members[0].lease_id} has not")
        self._check_no_vm(group, "has ended")

    # --- the facts ----------------------------------------------------------------------------------------

    def _groups(self) -> Iterator[_Group]:
        self._grounds.clocked.set_time(self._grounds.scheduler)
        [found] = self._grounds.clocked.texts(_GROUPS)
        for group_id, state, size, min_size, started_at, formed_at, rows in json.loads(found or "[]"):
            members = tuple(_Member(*row) for row in rows or ())
            yield _Group(group_id, GroupState(state), size, min_size, started_at, formed_at, members)

    def _machines(self) -> Iterator[tuple[Cloud, Machine]]:
        clouds: Mapping[str, Cloud] = self._grounds.clouds
        return ((cloud, machine) for cloud in clouds.values() for machine in cloud.machines.values())

    def _living(self, group_id: str) -> Iterator[tuple[Cloud, Machine]]:
        """The VMs of a group, without those that nobody could expect any more and those that somebody else made."""
        for cloud, machine in self._machines():
            if not machine.alive or machine.late or machine.copied:
                continue
            group = self._of(machine)
            if group is not None and group[0] == group_id:
                yield cloud, machine

    def _of(self, machine: Machine) -> tuple[str, str] | None:
        """(group id, placement) of the lease that a VM was made for."""
        lease_id = machine.key[0]
        if lease_id not in self._group_of:
            row = self._grounds.clocked.connection.execute(_GROUP_OF, {"lease": lease_id}).first()
            self._group_of[lease_id] = None if row is None else (row.id, row.placement)
        return self._group_of[lease_id]


def _check_ranks(group: _Group) -> None:
    ranks = [member.rank for member in group.members]
    if len(set(ranks)) < len(ranks):
        raise Violation(f"{group.id} has a rank twice: {ranks}")
    beyond = [member.rank for member in group.members if member.wanted and not 0 <= member.rank < group.size]
    if beyond:
        raise Violation(f"{group.id} of {group.size} has the ranks {beyond}")


def _pool(cloud: Cloud, machine: Machine, placement: str) -> tuple[str, str, str, str | None]:
    zone = None if placement == GroupPlacement.ANY else machine.zone
    return cloud.name, machine.kind, machine.market, zone
