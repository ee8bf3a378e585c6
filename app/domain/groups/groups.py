"""Groups of leases that start together in one place: their states, their rules, and the facts of a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from app.domain.ids import GroupId, TenantId
from app.domain.offerings import Market, Offering
from app.domain.reasons import Reason

MOST_MEMBERS = 256
"""The largest size of a group."""


class GroupState(StrEnum):
    """Where a group is: `queued -> forming -> active <-> degraded -> releasing -> ended`. A failed pool returns it to `queued`."""

    QUEUED = "queued"
    FORMING = "forming"
    ACTIVE = "active"
    DEGRADED = "degraded"
    RELEASING = "releasing"
    ENDED = "ended"


class GroupPlacement(StrEnum):
    """How close the members' VMs are. `any`: one region. `same_zone`: one zone. `cluster`: one zone, and close to each other there."""

    ANY = "any"
    SAME_ZONE = "same_zone"
    CLUSTER = "cluster"


class GroupInterconnect(StrEnum):
    """Whether the members' VMs need a network fabric besides Ethernet, such as EFA or InfiniBand."""

    NONE = "none"
    PREFERRED = "preferred"
    REQUIRED = "required"


class OnMemberLoss(StrEnum):
    """What the loss of a member's VM means for an active group.

    `end`: the group ends. `replace`: the member is replaced in the same pool. `keep`: the group goes on without it,
    while `min_size` members are left.
    """

    END = "end"
    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Where all members of a group are placed. `zone` None: any zone of the region."""

    account: str
    region: str
    zone: str | None
    instance_type: str
    market: Market

    @classmethod
    def of(cls, offering: Offering, placement: GroupPlacement) -> Self:
        """The pool that an offering belongs to."""
        key = offering.key
        zone = None if placement is GroupPlacement.ANY else key.zone
        return cls(
            account=key.account, region=key.region, zone=zone, instance_type=key.instance_type, market=key.market
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`. Further members are ignored."""
        return cls(
            account=value["account"],
            region=value["region"],
            zone=value["zone"],
            instance_type=value["instance_type"],
            market=Market(value["market"]),
        )

    def as_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "account": self.account,
            "region": self.region,
            "zone": self.zone,
            "instance_type": self.instance_type,
            "market": str(self.market),
        }

    def holds(self, offering: Offering) -> bool:
        """Whether the offering belongs to the pool."""
        key = offering.key
        return (
            (key.account, key.region, key.instance_type, key.market)
            == (self.account, self.region, self.instance_type, self.market)
        ) and self.zone in (None, key.zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTry:
    """A pool that did not form the group, and when that was decided."""

    pool: Pool
    failed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The facts on which decisions about a group are based. `pool` None: none is elected."""

    id: GroupId
    tenant_id: TenantId
    name: str
    size: int
    min_size: int
    placement: GroupPlacement
    interconnect: GroupInterconnect
    form_seconds: int
    on_member_loss: OnMemberLoss
    state: GroupState
    ends: bool
    """Whether its end was requested: `desired` is end."""
    reason: Reason | None
    pool: Pool | None
    pools_tried: tuple[PoolTry, ...]
    pool_started_at: datetime | None
    wait_until: datetime
    formed_at: datetime | None

    @property
    def forms_until(self) -> datetime | None:
        """When the present pool has failed unless enough members are ready. None: no pool is elected."""
        if self.pool_started_at is None:
            return None
        return self.pool_started_at + timedelta(seconds=self.form_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A lease's place in a group. `pool`: the only one that it may be placed in; None: it waits for one.

    `retreats`: its VM is ended, since the group did not form in the pool. `forming`: the group is not formed yet, so
    that the group, not the lease, decides when to give up. `replaces`: a lost VM gets a replacement, whatever the lease's
    `on_interruption` is.
    """

    group_id: GroupId
    rank: int
    pool: Pool | None
    retreats: bool
    forming: bool
    replaces: bool
