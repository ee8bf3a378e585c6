"""An event of each type."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from app.domain.budgets import BudgetKind, Period
from app.domain.event_parts import EventData, EventError, EventFinding, EventOffering, EventReason
from app.domain.event_types import EventType
from app.domain.events import EVENT_DATA
from app.domain.gpus.findings import HealthStatus, ProofStatus, Severity
from app.domain.groups.events import EventPool
from app.domain.reasons import Origin, Reason, ReasonCode

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
EXPIRED = EventReason.of(Reason(ReasonCode.EXPIRED, "The term has ended.", Origin.SYSTEM))
OFFERING = EventOffering(
    provider="aws",
    account="main",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="g5.xlarge",
    market="spot",
    reservation=None,
    price_per_hour="1.006",
)

FINDING = EventFinding(
    code="xid_79", severity=Severity.FATAL, gpu=None, message="Xid 79: the GPU has fallen off the bus"
)

VALUES: dict[str, Any] = {
    "status": HealthStatus.FAILING,
    "via": None,
    "findings": (FINDING,),
    "gpus": 8,
    "bf16_tflops": 794.5,
    "fp16_tflops": 790.0,
    "fp32_tflops": None,
    "memory_gbps": 3350.0,
    "allreduce_gbps": None,
    "n": 1,
    "name": "train",
    "reason": EXPIRED,
    "offering": OFFERING,
    "instance_id": "i-1",
    "obstacle": "the provider does not end the VM",
    "labels": {"example.org/team": "Größe"},
    "expires_at": AT,
    "ends_at": AT,
    "seconds": 300,
    "expiry_warnings_seconds": (1800, 300),
    "keys": ("ssh-ed25519 AAAA",),
    "error": EventError(class_="insufficient_capacity", code="InsufficientInstanceCapacity", message="no capacity"),
    "notice_at": AT,
    "deadline_at": None,
    "action": "terminate",
    "resource": "gpus",
    "limit": 8,
    "used": 8,
    "orphan_id": "orphan_01jz0000000000000000000000",
    "lease_id": "lease_01jz0000000000000000000000",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "cause": "ended_lease",
    "first_seen_at": AT,
    "ended_by_us": True,
    "idle_since": AT,
    "samples": 60,
    "gpu_hours": "8.00",
    "cost": "32.77",
    "keep_until": AT,
    "max_cost": "12.50",
    "accrued": "10.00",
    "price_per_hour": "1.10",
    "previous_price_per_hour": "1.006",
    "budget_id": "budget_01jz0000000000000000000000",
    "kind": BudgetKind.LABEL,
    "key_id": None,
    "label": "team:vision",
    "period": Period.MONTH,
    "threshold": 80,
    "amount": "100.00",
    "spent": "80.50",
    "committed": "12.00",
    "resets_at": AT,
    "group_id": "group_01jz0000000000000000000000",
    "size": 4,
    "min_size": 2,
    "previous_size": 2,
    "ready": 3,
    "rank": 1,
    "pool": EventPool(
        account="main", region="us-east-1", zone="us-east-1a", instance_type="g5.xlarge", market="on_demand"
    ),
}


OF_TYPE: dict[EventType, dict[str, Any]] = {EventType.LEASE_PROOF: {"status": ProofStatus.FAILED}}
"""Values of fields that mean something else in one type."""


def sample(kind: EventType | str) -> EventData:
    """The data of an event of this type."""
    data = EVENT_DATA[EventType(kind)]
    values = {**VALUES, **OF_TYPE.get(EventType(kind), {})}
    return data(**{name: values[name] for name in (one.name for one in fields(data))})
