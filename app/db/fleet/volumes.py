"""Statements about volumes. A transaction locks volumes after the lease and before quota, in the order of their ids.

Changes are guarded by `app.domain.volumes.sources`. A statement that ends a volume returns its quota, once.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Executable,
    Text,
    Update,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect, Time, by_turns
from app.db.core.tenant_scope import owned
from app.db.fleet.offerings import EVERY_TYPE
from app.db.schema.tables import part_price, quota, volume
from app.domain.quotas import VOLUME_GIB
from app.domain.volumes import ENDED, VolumeState, sources

NOW = func.now()
CLOCK = select(NOW.label("now"))
"""The database's clock, read before a listing begins."""
_CHANGED: Mapping[str, Any] = {"version": volume.c.version + 1, "updated_at": NOW}
_LIVE = volume.c.state.not_in([literal_column(f"'{state}'") for state in sorted(ENDED)])
"""Its states are literals, so that the partial indexes on live volumes apply."""
_AT_WORK = (VolumeState.CREATING, VolumeState.DELETING)


_PUBLIC = (*volume.c, NOW.label("as_of"))


def get(volume_id: str, *, within: str | None, lock: bool = False) -> AnySelect:
    """A volume, if it belongs to the tenant `within`. `lock`: lock its row until the transaction ends."""
    query = select(*_PUBLIC).where(volume.c.id == volume_id, owned(volume.c.tenant_id, within))
    return query.with_for_update() if lock else query


def page(
    *, tenant_id: str | None, states: Collection[str], name: str | None, after: str | None, limit: int
) -> AnySelect:
    """Volumes, the newest first. `tenant_id` None: of every tenant. `states` empty: in any. `name` None: with any."""
    query = select(*_PUBLIC).where(owned(volume.c.tenant_id, tenant_id))
    if states:
        query = query.where(volume.c.state.in_(states))
    if name is not None:
        query = query.where(volume.c.name == name)
    if after is not None:
        query = query.where(volume.c.id < after)
    return query.order_by(volume.c.id.desc()).limit(limit)


def disk_price(account: str, region: str) -> AnySelect:
    """(price): USD a GiB and month of the account's network disks. No row: unknown."""
    here = (part_price.c.account == account, part_price.c.region == region, part_price.c.part == "disk")
    return select(part_price.c.price).where(*here, part_price.c.instance_type == EVERY_TYPE)


def count_live(tenant_id: str) -> AnySelect:
    """The number of live volumes of a tenant. Lock the tenant first."""
    return select(func.count()).select_from(volume).where(volume.c.tenant_id == tenant_id, _LIVE)


def add(values: Mapping[str, Any]) -> AnyInsert:
    """Inserts a volume in `creating` and returns it. Returns no row when a live volume of the tenant has the name."""
    taken = [volume.c.tenant_id, volume.c.name]
    new = insert(volume).values(dict(values))
    return new.on_conflict_do_nothing(index_elements=taken, index_where=_LIVE).returning(*_PUBLIC)


def named(tenant_id: str, names: Iterable[str], *, lock: bool = False) -> AnySelect:
    """Live volumes of a tenant with these names, by id. `lock`: lock them, for `claim`."""
    query = (
        select(volume)
        .where(volume.c.tenant_id == tenant_id, volume.c.name.in_(sorted(names)), _LIVE)
        .order_by(volume.c.id)
    )
    return query.with_for_update() if lock else query


def claim(volume_ids: Iterable[str], lease_id: str, *, within: str) -> Update:
    """The lease holds these volumes, which `named` has locked: those of them that are available and free."""
    return (
        update(volume)
        .where(
            volume.c.id.in_(sorted(volume_ids)),
            volume.c.tenant_id == within,
            volume.c.state == VolumeState.AVAILABLE.value,
            volume.c.lease_id.is_(None),
        )
        .values(lease_id=lease_id, last_lease_id=lease_id, last_used_at=None, **_CHANGED)
    )


_LEASE = bindparam("lease", type_=Text)
_OF_LEASE = select(volume).where(volume.c.lease_id == _LEASE).order_by(volume.c.id)
_RELEASE = update(volume).where(volume.c.lease_id == _LEASE).values(lease_id=null(), last_used_at=NOW, **_CHANGED)


def of_lease(lease_id: str) -> Bound[AnySelect]:
    """The volumes that a lease holds, by id."""
    return Bound(_OF_LEASE, {"lease": lease_id})


def release(lease_id: str) -> Bound[Update]:
    """Ends the claim of a lease on its volumes. Belongs to the transaction in which the lease becomes terminal."""
    return Bound(_RELEASE, {"lease": lease_id})


def request_deletion(volume_id: str, request_id: str | None, *, within: str | None) -> Executable:
    """To `deleting`, when no lease holds the volume. Returns the volume, or no row. `within`: the requesting tenant."""
    changes = {"state": VolumeState.DELETING.value, "retry_at": NOW, "tries": 0, "reason": null()}
    return (
        update(volume)
        .where(volume.c.id == volume_id, owned(volume.c.tenant_id, within), volume.c.lease_id.is_(None))
        .where(volume.c.state.in_([str(state) for state in sources(VolumeState.DELETING)]))
        .values(**changes, request_id=request_id, **_CHANGED)
        .returning(*_PUBLIC)
    )


# Of the workers.


def due(account: str, region: str, limit: int) -> AnySelect:
    """Volumes of a place in `creating` or `deleting` whose `retry_at` has come. Tenants take turns. All columns."""
    here = (volume.c.account == account, volume.c.region == region)
    at_work = volume.c.state.in_([str(state) for state in _AT_WORK])
    waiting = select(volume).where(*here, volume.c.retry_at <= NOW, at_work)
    return by_turns(waiting, first="retry_at", limit=limit)


def mark_sent(volume_id: str, state: VolumeState, retry_seconds: float) -> Update:
    """Before a call: one more try in this state. The job looks at the volume again after `retry_seconds`."""
    return _in_state(volume_id, state).values(
        sent_at=NOW, tries=volume.c.tries + 1, retry_at=_after(retry_seconds), **_CHANGED
    )


def postpone(volume_id: str, state: VolumeState, retry_seconds: float, reason: Mapping[str, Any] | None) -> Update:
    """After a failed call: the reason, and when the job looks at the volume again."""
    reason_json = null() if reason is None else dict(reason)
    return _in_state(volume_id, state).values(retry_at=_after(retry_seconds), reason=reason_json, **_CHANGED)


def record_disk(volume_id: str, *, cloud_id: str, kind: str, at: datetime | None = None) -> Update:
    """The cloud has the disk: its id, its kind, and the start of billing (`at`, or now), each written once.

    Holds in `deleting` too: a disk that a call of unknown outcome made is deleted by its id, and billed until then.
    """
    begin = NOW if at is None else at
    return (
        update(volume)
        .where(volume.c.id == volume_id, volume.c.cloud_id.is_(None), _LIVE)
        .values(
            cloud_id=cloud_id,
            kind=kind,
            billing_started_at=func.coalesce(volume.c.billing_started_at, begin),
            charged_until=func.coalesce(volume.c.charged_until, begin),
            seen_at=NOW,
            **_CHANGED,
        )
    )


def make_available(volume_id: str) -> Update:
    """From `creating` to `available`: the cloud says that the disk is ready. Its `cloud_id` is recorded."""
    return (
        _in_state(volume_id, VolumeState.CREATING)
        .where(volume.c.cloud_id.is_not(None))
        .values(state=VolumeState.AVAILABLE.value, reason=null(), retry_at=null(), tries=0, **_CHANGED)
    )


def end(volume_id: str, to: VolumeState, reason: Mapping[str, Any] | None = None) -> Executable:
    """To `deleted`, `failed` or `lost`: billing ends, and the quota is returned. Returns (id), or no row if it had ended.

    A lease that holds a lost volume keeps its claim until the lease ends.
    """
    ended: Any = (
        update(volume)
        .where(volume.c.id == volume_id, volume.c.state.in_([str(state) for state in sources(to)]))
        .values(
            state=str(to),
            reason=null() if reason is None else dict(reason),
            retry_at=null(),
            ended_at=NOW,
            billing_ended_at=case(
                (volume.c.billing_started_at.is_not(None), func.greatest(NOW, volume.c.billing_started_at))
            ),
            **_CHANGED,
        )
        .returning(volume.c.id, volume.c.tenant_id, volume.c.size_gib)
        .cte("ended")
    )
    returned: Any = (
        update(quota)
        .where(quota.c.tenant_id == ended.c.tenant_id, quota.c.resource == VOLUME_GIB)
        .values(used=func.greatest(quota.c.used - ended.c.size_gib, literal_column("0")))
        .cte("returned")
    )
    return select(ended.c.id).add_cte(returned)


def live_in(account: str, regions: Iterable[str]) -> AnySelect:
    """(id, cloud_id, region, state, lease_id, sent_at, seen_at, missing_since) of live volumes, for the inventory."""
    columns = ("id", "tenant_id", "cloud_id", "region", "state", "lease_id", "sent_at", "seen_at", "missing_since")
    return select(*(volume.c[name] for name in columns)).where(
        volume.c.account == account, volume.c.region.in_(sorted(regions)), _LIVE
    )


def states_of(volume_ids: Iterable[str]) -> AnySelect:
    """(id, state, cloud_id, account, region) of volumes in any state: whether a disk with our tags has a row."""
    columns = ("id", "state", "cloud_id", "account", "region")
    return select(*(volume.c[name] for name in columns)).where(volume.c.id.in_(sorted(volume_ids)))


_IDS = bindparam("ids", type_=ARRAY(Text))
_AT = bindparam("at", type_=Time)
_NOTE_SEEN = update(volume).where(volume.c.id == func.any(_IDS), _LIVE).values(seen_at=_AT, missing_since=null())
_NOTE_MISSING = (
    update(volume)
    .where(volume.c.id == func.any(_IDS), _LIVE)
    .where(volume.c.missing_since.is_(None), volume.c.seen_at < _AT)
    .values(missing_since=_AT)
)


def note_seen(volume_ids: Iterable[str], at: datetime) -> Bound[Update]:
    """A listing or read that began `at` showed these disks."""
    return Bound(_NOTE_SEEN, {"ids": sorted(volume_ids), "at": at})


def note_missing(volume_ids: Iterable[str], at: datetime) -> Bound[Update]:
    """A complete listing that began `at` did not show these disks. The first such time stays, until one shows them."""
    return Bound(_NOTE_MISSING, {"ids": sorted(volume_ids), "at": at})


def _in_state(volume_id: str, state: VolumeState) -> Update:
    return update(volume).where(and_(volume.c.id == volume_id, volume.c.state == str(state)))


def _after(seconds: float) -> ColumnElement[Any]:
    return NOW + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
