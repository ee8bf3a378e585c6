"""`gpulease ops adopt`: rebuilds leases from the tags of VMs whose rows a restored database has lost."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog
from sqlalchemy import Connection, Row, func

from app.db.core.ids import new_id
from app.db.events.events import NewEvent
from app.db.fleet import adoption as statements
from app.db.fleet.offerings import type_from_row
from app.db.leases.launches import FIRST_ATTEMPT_AT
from app.db.leases.transitions import WAKE, locked, write
from app.db.tenancy import commitments, quotas
from app.domain import placed, tags
from app.domain.error_kinds import ErrorKind
from app.domain.events import LeaseAdopted
from app.domain.ids import GroupId
from app.domain.lease_requests import LeaseRequest
from app.domain.leases import TERMINAL, LeaseState
from app.domain.offerings import MarketPreference
from app.domain.quotas import GPUS, LEASES, MODEL_PREFIX, SPEND_PER_HOUR, Amounts
from app.domain.rates import Rate
from app.domain.tags import OwnerTags
from app.domain.tokens import launch_token
from workers.groups.restored import OtherPoolError, rejoin_pool
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


class _CannotAdoptError(Exception):
    """The message is one sentence with the cause, for the operator."""


def adopt_requested(runtime: Runtime, account: str, region: str) -> None:
    """Rebuilds the leases of the orphans whose adoption an operator requested. Each one succeeds or fails alone."""
    for row in runtime.database.all(statements.requested(account, region)):
        try:
            with runtime.database.begin() as connection:
                _adopt(connection, runtime, row)
        except _CannotAdoptError as why:
            log.warning("orphan not adopted", instance_id=row.instance_id, why=str(why))
            runtime.database.run(statements.not_adopted(account, region, row.instance_id, str(why)))
        else:
            log.warning("orphan adopted", instance_id=row.instance_id, lease_id=row.lease_id)


def _adopt(connection: Connection, runtime: Runtime, row: Row[Any]) -> None:
    owner = OwnerTags.parse(row.tags)
    if owner is None or tags.deadline(row.tags) is None:
        raise _CannotAdoptError("its tags do not name tenant, lease, attempt and deadline")
    if row.gpu_model is None or _price(row) is None:
        raise _CannotAdoptError(f"{row.instance_type} in {row.zone} is not in the catalogue with a price")
    if connection.execute(statements.tenant_exists(owner.tenant_id)).first() is None:
        raise _CannotAdoptError(f"its tenant {owner.tenant_id} does not exist: create the tenants first")
    expires_at = owner.deadline_at - timedelta(seconds=runtime.timing.deadline_grace)
    event = NewEvent(LeaseAdopted(n=owner.n, instance_id=row.instance_id))
    extendable = runtime.accounts.is_extendable(row.account)
    rebuilt = _lease(row, owner, expires_at, extendable=extendable)
    if connection.execute(statements.rebuild_lease(rebuilt)).first() is not None:
        known = 0
        connection.execute(*write(owner.lease_id, event))
    else:
        known = _join(connection, row, owner, event, extendable=extendable)
    connection.execute(statements.rebuild_attempts(_attempts(runtime, row, owner, known)))
    amounts = _amounts(row)
    connection.execute(*quotas.ensure_rows(owner.tenant_id, amounts))
    connection.execute(*quotas.lock_all(owner.tenant_id))
    connection.execute(*quotas.release(owner.lease_id))
    connection.execute(statements.force_quota(owner.tenant_id, amounts))
    connection.execute(*quotas.remember(owner.tenant_id, owner.lease_id, amounts))
    commitments.fit(connection, [owner.lease_id])
    connection.execute(statements.adopted(row.account, row.region, row.instance_id))


def _join(connection: Connection, row: Row[Any], owner: OwnerTags, event: NewEvent, *, extendable: bool) -> int:
    """Assigns the VM to its existing lease. Returns the lease's number of attempts so far.

    The lease is older than the loss and waits for a VM or for its end.
    """
    connection.execute(*locked([owner.lease_id]))
    lease = connection.execute(statements.existing_lease(owner.lease_id)).one()
    _check_joins(lease, owner)
    pool = _pool_of_member(connection, row, lease)
    to = LeaseState.PROVISIONING if lease.state == LeaseState.QUEUED else None
    values = {
        "attempts_count": owner.n,
        "first_attempt_at": FIRST_ATTEMPT_AT,
        "placement": placed.placement(_where(row), _facts(row), _rate(row), row.instance_id, extendable=extendable),
        "provider": row.provider,
        "account": row.account,
        "region": row.region,
        "gpu_model": row.gpu_model,
        "gpu_count": row.gpu_count,
        "launched_at": row.launched_at or func.now(),
        "deadline_applied": owner.deadline_at,
        "slot_bucket": None,
        "slot_at": None,
        **pool,
        **WAKE,
    }
    connection.execute(*write(owner.lease_id, event, to=to, values=values))
    return int(lease.attempts_count)


def _pool_of_member(connection: Connection, row: Row[Any], lease: Row[Any]) -> dict[str, Any]:
    """Columns of a member of a group, which launches in one pool at a time. A member that leaves its pool ends the VM."""
    if lease.group_id is None or lease.group_retreat:
        return {}
    try:
        pool = rejoin_pool(connection, GroupId(lease.group_id), _where(row))
    except OtherPoolError:
        msg = f"its group {lease.group_id} forms in another pool: end this VM"
        raise _CannotAdoptError(msg) from None
    return {} if pool is None else {"group_pool": pool.as_json()}


def _check_joins(lease: Row[Any], owner: OwnerTags) -> None:
    """Raises _CannotAdoptError when the lease cannot have this VM."""
    if lease.tenant_id != owner.tenant_id:
        raise _CannotAdoptError(f"lease {owner.lease_id} belongs to another tenant: end this VM")
    if lease.state in TERMINAL:
        raise _CannotAdoptError(f"lease {owner.lease_id} has ended: end this VM")
    if lease.live is not None:
        msg = f"lease {owner.lease_id} exists, and attempt {lease.live} of the lease is under way: end this VM or that lease"
        raise _CannotAdoptError(msg)
    if lease.attempts_count >= owner.n:
        raise _CannotAdoptError(f"attempt {owner.n} of lease {owner.lease_id} was another VM: end this VM")


def _price(row: Row[Any]) -> Decimal | None:
    price: Decimal | None = row.price_per_hour if row.price_per_hour is not None else row.offering_price
    return price


def _rate(row: Row[Any]) -> Rate:
    """Nobody knows its disks and its address: those are not metered."""
    return Rate(compute=_price(row) or Decimal(0))


def _amounts(row: Row[Any]) -> Amounts:
    gpus = Decimal(row.gpu_count)
    return {
        GPUS: gpus,
        MODEL_PREFIX + row.gpu_model: gpus,
        LEASES: Decimal(1),
        SPEND_PER_HOUR: _price(row) or Decimal(0),
    }


def _facts(row: Row[Any]) -> dict[str, Any]:
    return placed.hardware(type_from_row(row), {"id": None, "name": None})


def _where(row: Row[Any]) -> dict[str, Any]:
    return {
        "provider": row.provider,
        "account": row.account,
        "region": row.region,
        "zone": row.zone,
        "instance_type": row.instance_type,
        "market": row.market,
    }


def _lease(row: Row[Any], owner: OwnerTags, expires_at: datetime, *, extendable: bool) -> dict[str, Any]:
    started = row.launched_at or func.now()
    labels = tags.labels(row.tags)
    name = tags.name(row.tags) or owner.lease_id
    return {
        "id": owner.lease_id,
        "tenant_id": owner.tenant_id,
        "name": name,
        "labels": labels,
        "request": _request(row, name, labels),
        "minimum_claim": {resource: str(amount) for resource, amount in _amounts(row).items()},
        "state": "booting",
        "placement": placed.placement(_where(row), _facts(row), _rate(row), row.instance_id, extendable=extendable),
        "provider": row.provider,
        "account": row.account,
        "region": row.region,
        "gpu_model": row.gpu_model,
        "gpu_count": row.gpu_count,
        "attempts_count": owner.n,
        "rate_per_hour": _price(row),
        "rate_since": started,
        "created_at": started,
        "launched_at": started,
        "running_at": func.now(),
        "billing_started_at": started,
        "expires_at": expires_at,
        "wait_until": expires_at,
        "deadline_applied": owner.deadline_at,
    }


def _request(row: Row[Any], name: str, labels: dict[str, str]) -> dict[str, Any]:
    """The request in the form that the API stores, as far as the VM's facts determine it."""
    request = LeaseRequest(
        name=name,
        labels=labels,
        instance_types=(row.instance_type,),
        market=MarketPreference(row.market),
        providers=(row.provider,),
        regions=(row.region,),
        ttl_seconds=60,
    )
    return request.as_json()


def _attempts(runtime: Runtime, row: Row[Any], owner: OwnerTags, known: int) -> list[dict[str, Any]]:
    """`known`: how many attempts of the lease the database has."""
    lost = [_attempt(runtime, row, owner, n) | _LOST for n in range(known + 1, owner.n)]
    mine = _attempt(runtime, row, owner, owner.n) | {
        "state": "known",
        "clean": False,
        "error": None,
        "instance_id": row.instance_id,
        "vm_state": "pending",
        "known_at": func.now(),
        "ended_at": None,
        "billing_started_at": row.launched_at or func.now(),
    }
    return [*lost, mine]


_LOST: dict[str, Any] = {
    "state": "dead",
    "clean": True,
    "error": {
        "class": ErrorKind.LOST,
        "code": None,
        "message": "the database lost this attempt; a later one was adopted",
    },
    "instance_id": None,
    "vm_state": None,
    "known_at": None,
    "ended_at": func.now(),
    "billing_started_at": None,
}


def _attempt(runtime: Runtime, row: Row[Any], owner: OwnerTags, n: int) -> dict[str, Any]:
    installation = runtime.installation
    return {
        "id": new_id("attempt"),
        "lease_id": owner.lease_id,
        "tenant_id": owner.tenant_id,
        "n": n,
        **_where(row),
        "offering": _facts(row),
        "price_per_hour": _price(row),
        "token": launch_token(installation.token_key, installation.id, owner.lease_id, n),
        "params_hash": owner.params_hash,
    }
