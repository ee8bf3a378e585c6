"""The election of a group's pool: all members are placed in one, and pools are tried one after the other."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.domain.groups.groups import GroupFacts, GroupInterconnect, GroupPlacement, Pool
from app.domain.offerings import Offering

LOOK_AGAIN = timedelta(seconds=30)


def pools(group: GroupFacts, candidates: Sequence[Offering]) -> dict[Pool, list[Offering]]:
    """The pools that can hold the group, in the order of their best candidate.

    With `interconnect` `required` a pool's type has a network fabric; with `preferred` such pools come first.
    """
    offerings_by_pool: dict[Pool, list[Offering]] = {}
    zonal = {_outside_zone(o) for o in candidates if o.key.zone != o.key.region}
    for offering in candidates:
        in_no_zone = offering.key.zone == offering.key.region
        if group.placement is not GroupPlacement.ANY and in_no_zone and _outside_zone(offering) in zonal:
            continue
        if group.interconnect is GroupInterconnect.REQUIRED and offering.type.network_fabric is None:
            continue
        offerings_by_pool.setdefault(Pool.of(offering, group.placement), []).append(offering)
    fitting = {pool: offerings for pool, offerings in offerings_by_pool.items() if _has_room(offerings, group.min_size)}
    if group.interconnect is GroupInterconnect.PREFERRED:
        return dict(sorted(fitting.items(), key=lambda item: item[1][0].type.network_fabric is None))
    return fitting


def _outside_zone(offering: Offering) -> tuple[str, str, str, str]:
    key = offering.key
    return key.account, key.region, key.instance_type, key.market


def _has_room(offerings: Sequence[Offering], members: int) -> bool:
    """Whether the reservations of a pool have slots for so many members. A pool without reservations has room."""
    if any(offering.reservation is None or offering.reservation.free is None for offering in offerings):
        return True
    return sum(offering.reservation.free or 0 for offering in offerings if offering.reservation is not None) >= members


def choose_pool(
    group: GroupFacts, candidates: Sequence[Offering], now: datetime, pause: timedelta
) -> Pool | datetime | None:
    """The pool to try next, or the time of the next choice, or None: no pool is left.

    Pools that were tried least come first. A pool that did not form the group is tried again `pause` later, until
    `wait_until`; one that was not tried yet, also after that. A pool in cool-off is tried when the group would end
    without having tried any.
    """
    times = {
        pool: _usable_at(group, pool, offerings, now, pause) for pool, offerings in pools(group, candidates).items()
    }
    tries = {pool: sum(attempt.pool == pool for attempt in group.pools_tried) for pool in times}
    waits = now < group.wait_until
    ordered = sorted((pool for pool in times if waits or not tries[pool]), key=lambda pool: tries[pool])
    for pool in ordered:
        if times[pool] <= now:
            return pool
    if waits:
        return min([*(times[pool] for pool in ordered), group.wait_until, now + LOOK_AGAIN])
    return ordered[0] if ordered and not group.pools_tried else None


def _usable_at(
    group: GroupFacts, pool: Pool, offerings: Sequence[Offering], now: datetime, pause: timedelta
) -> datetime:
    failed = [attempt.failed_at + pause for attempt in group.pools_tried if attempt.pool == pool]
    cool = min((o.cool_off.until if o.cool_off is not None and o.cooling(now) else now) for o in offerings)
    return max([cool, *failed])
