"""VMs that no live lease owns: recorded, reported to their tenants, and ended when they are due."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.db.events import events
from app.db.fleet import orphans
from app.db.leases import notices
from app.domain.events import OrphanEnded
from app.domain.ids import TenantId
from app.domain.inventory import Findings, Key
from app.domain.tags import attempt_key, deadline
from workers.observation.listings import RegionListing
from workers.providers.errors import CredentialsRejected, ProviderError, Throttled
from workers.providers.ports import Provider
from workers.providers.types import Vm
from workers.runtime.accounts import error_json
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

KILLS_A_CYCLE = 50
_KILL_AGAIN_SECONDS = 30.0


def sight_orphans(runtime: Runtime, account: str, region: str, listed: RegionListing, findings: Findings) -> None:
    """Records VMs that no live lease owns.

    A VM that a row proves dead is due at once. A VM with copied tags is due after the grace period. A VM whose row is
    lost is never due.
    """
    causes = {seen.vm_id: cause for seen, _, cause in findings.doomed}
    owners = {seen.vm_id: row.key for seen, row, _ in findings.doomed if row is not None}
    causes |= dict.fromkeys((seen.vm_id for seen in findings.copied), "copied_tags")
    causes |= dict.fromkeys((seen.vm_id for seen in findings.lost), "lost_row")
    graces = {"copied_tags": runtime.settings.rowless_grace_seconds, "lost_row": None}
    with runtime.database.begin() as connection:
        for vm_id, cause in causes.items():
            vm = listed.vms[vm_id]
            values = _orphan_values(account, region, vm, cause, owners.get(vm_id) or attempt_key(vm.tags))
            grace = graces.get(cause, 0.0)
            if connection.execute(*orphans.sight(values, grace_seconds=grace)).scalar_one() == 1:
                about = {"cause": cause, "lease_id": values["lease_id"], "attempt": values["attempt_n"]}
                log.warning("orphan", account=account, region=region, instance_id=vm_id, **about)
        gone = orphans.gone(account, region, list(causes), listed.unreachable)
        _tell_tenants(connection, connection.execute(*gone).all())


def _orphan_values(account: str, region: str, vm: Vm, cause: str, key: Key | None) -> dict[str, Any]:
    return {
        "account": account,
        "region": region,
        "instance_id": vm.id,
        "zone": vm.zone,
        "instance_type": vm.instance_type,
        "market": str(vm.market),
        "cause": cause,
        "lease_id": key[0] if key else None,
        "attempt_n": key[1] if key else None,
        "tags": json.dumps(dict(vm.tags)),
        "price_per_hour": vm.price_per_hour,
        "launched_at": vm.launched_at,
        "deadline_at": deadline(vm.tags),
    }


def end_orphans(runtime: Runtime, provider: Provider, account: str, region: str, *, rowless_too: bool) -> int:
    """Ends the due orphans, at most fifty a cycle, within the provider's request rate. Returns their number.

    No orphan is due while the installation is on hold. Orphans without a row end only when there are not too many at
    once.
    """
    bucket = runtime.rate_limiter.bucket(account, region, "terminate")
    if not runtime.rate_limiter.take(provider, bucket):
        return 0
    due = orphans.due(account, region, again_after=_KILL_AGAIN_SECONDS, limit=KILLS_A_CYCLE, rowless_too=rowless_too)
    rows = runtime.database.all(due)
    if not rows:
        return 0
    for row in rows:
        log.warning("ending orphan", account=account, region=region, instance_id=row.instance_id, cause=row.cause)
    refused = _end(provider, region, [row.instance_id for row in rows])
    _store_refusals(runtime, account, region, {row.instance_id: refused.get(row.instance_id) for row in rows})
    for error in refused.values():
        if isinstance(error, Throttled):
            runtime.rate_limiter.throttled(provider, bucket, error)
            break
        if len(refused) == len(rows) and (isinstance(error, CredentialsRejected) or not error.answered):
            raise error
    return len(rows)


def _end(provider: Provider, region: str, vm_ids: Sequence[str]) -> Mapping[str, ProviderError]:
    """Requests the end of the VMs. Returns the refused ones: a refusal for one VM does not keep the others."""
    try:
        return provider.terminate(region, vm_ids).refused
    except ProviderError as error:
        return dict.fromkeys(vm_ids, error)


def _store_refusals(runtime: Runtime, account: str, region: str, errors: Mapping[str, ProviderError | None]) -> None:
    for vm_id, error in errors.items():
        if error is not None:
            about = {"account": account, "region": region, "instance_id": vm_id}
            log.warning("orphan not ended", **about, code=error.code, error=error.message)
    outcomes = {vm_id: error_json(error) if error is not None else None for vm_id, error in errors.items()}
    runtime.database.run(orphans.end_asked(account, region, outcomes))


def _tell_tenants(connection: Connection, gone: Iterable[Row[Any]]) -> None:
    """Writes an event for each ended orphan to the tenant of its lease, in the transaction that noticed the end.

    Tenants get no event for an orphan without a lease, nor for one with copied tags: the lease they name never had it.
    """
    known = {row.instance_id: row for row in gone if row.lease_id is not None and row.cause != "copied_tags"}
    if not known:
        return
    owners = connection.execute(notices.owners({row.lease_id for row in known.values()})).all()
    tenants = {row.id: row.tenant_id for row in owners}
    for row in known.values():
        if row.lease_id in tenants:
            event = events.NewEvent(_orphan(row))
            connection.execute(events.append(TenantId(tenants[row.lease_id]), event))


def _orphan(row: Row[Any]) -> OrphanEnded:
    return OrphanEnded(
        orphan_id=row.id,
        lease_id=row.lease_id,
        instance_id=row.instance_id,
        region=row.region,
        zone=row.zone,
        cause=row.cause,
        first_seen_at=row.first_seen_at,
        ended_by_us=row.end_requested_at is not None,
    )
