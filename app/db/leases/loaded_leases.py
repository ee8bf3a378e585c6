"""Rows of `claims.load`, as the domain sees them."""

from typing import Any

from app.db.leases import idleness
from app.domain.gpus.health import HealthRecord
from app.domain.gpus.proofs import ProofRecord
from app.domain.groups.groups import GroupState, Membership, OnMemberLoss, Pool
from app.domain.ids import AttemptId, GroupId, LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest, OnInterruption
from app.domain.leases import Attempt, AttemptState, Desired, Lease, LeaseState, VmState
from app.domain.reasons import Reason
from app.domain.volumes import VolumePlace

ATTEMPT_COLUMNS = [
    "id",
    "n",
    "state",
    *("provider", "account", "region", "zone", "instance_type", "market"),
    "reservation",
    "reserved_until",
    "token",
    "clean",
    *("price_per_hour", "disk_price_per_hour", "address_price_per_hour"),
    "instance_id",
    *("vm_state", "vm_state_at", "vm_reason"),
    "ready",
    "last_sent_at",
    "unknown_since",
    "unreachable_since",
    "known_at",
    *("terminate_sent_at", "terminate_tries"),
    "empty_listings",
    "last_empty_listing_at",
    "retry_at",
    "proof_awaited_at",
    "console_proof_tries",
    "gpu_rebooted_at",
    "volumes_attached_at",
]
"""Columns of the newest attempt that are fields of `Attempt` by the same name. `load` gives them the prefix `attempt_`."""


def lease_from_row(row: Any) -> Lease:
    """The domain's view of a row of `load`."""
    reason = row.lease_reason
    request = LeaseRequest.from_json(row.lease_request)
    return Lease(
        id=LeaseId(row.lease_id),
        tenant_id=TenantId(row.lease_tenant_id),
        state=LeaseState(row.lease_state),
        desired=Desired(row.lease_desired),
        reason=Reason.from_json(reason) if reason else None,
        request=request,
        on_interruption=OnInterruption(row.lease_on_interruption),
        created_at=row.lease_created_at,
        expires_at=row.lease_expires_at,
        wait_until=row.lease_wait_until,
        pass_started_at=row.lease_pass_started_at,
        running_at=row.lease_running_at,
        ready_at=row.lease_ready_at,
        release_requested_at=row.lease_release_requested_at,
        attempts_count=row.lease_attempts_count,
        wake_count=row.lease_wake_count,
        attempt=_attempt_from_row(row) if row.attempt_id is not None else None,
        unclean_attempts=row.unclean,
        reboot_requested_at=row.lease_reboot_requested_at,
        deadline_applied=row.lease_deadline_applied,
        term_in_doubt=row.lease_term_in_doubt,
        max_cost=row.lease_max_cost,
        max_rate=row.lease_max_rate,
        volume_place=None if row.lease_volume_place is None else VolumePlace.from_json(row.lease_volume_place),
        cost_closed=row.lease_cost_closed,
        cost_reached_at=row.lease_cost_reached_at,
        idle_floor=idleness.floor_from_row(row),
        idleness=idleness.idleness_from_row(row, request.idle),
        proof=ProofRecord.from_json(row.lease_proof) if row.lease_proof else None,
        gpu_health=HealthRecord.from_json(row.lease_gpu_health) if row.lease_gpu_health else None,
        membership=None if row.lease_group_id is None else _membership_from_row(row),
        tenant_active=row.tenant_active,
    )


def _membership_from_row(row: Any) -> Membership:
    forming = GroupState(row.group_state) in {GroupState.QUEUED, GroupState.FORMING}
    return Membership(
        group_id=GroupId(row.lease_group_id),
        rank=row.lease_rank,
        pool=None if row.lease_group_pool is None else Pool.from_json(row.lease_group_pool),
        retreats=row.lease_group_retreat,
        forming=forming,
        replaces=forming or row.on_member_loss == OnMemberLoss.REPLACE,
    )


def _attempt_from_row(row: Any) -> Attempt:
    facts = {name: getattr(row, f"attempt_{name}") for name in ATTEMPT_COLUMNS}
    facts["id"] = AttemptId(facts["id"])
    facts["state"] = AttemptState(facts["state"])
    facts["vm_state"] = VmState(facts["vm_state"]) if facts["vm_state"] is not None else None
    return Attempt(
        **facts,
        gpu_count=row.attempt_gpu_count or 1,
        watched_at=row.attempt_watched_at,
        has_agent=row.attempt_has_agent,
    )
