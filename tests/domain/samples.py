"""Values that tests of the rules start from: plausible unless a test says otherwise."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from app.domain.ids import AttemptId, LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest, OnInterruption
from app.domain.leases import Attempt, AttemptState, Desired, Lease, LeaseState
from app.domain.lifecycle import Timing
from app.domain.offerings import CoolOff, Driver, Gpu, InstanceType, Interconnect, Market, Offering, OfferingKey

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LEASE = LeaseId("lease_01jz0000000000000000000001")
TENANT = TenantId("tenant_01jz0000000000000000000001")
TIMING = Timing(
    unknown_retry=300,
    settle=600,
    settle_gap=120,
    launch_timeout=300,
    boot_timeout=900,
    boot_timeout_large=1800,
    max_backoff=300,
    not_found_grace=300,
    deadline_grace=1800.0,
    sample=60,
    proof=60,
)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def attempt(state: AttemptState = AttemptState.KNOWN, **changes: Any) -> Attempt:
    facts: dict[str, Any] = {
        "id": AttemptId("attempt_01jz0000000000000000000001"),
        "n": 1,
        "provider": "aws",
        "account": "main",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": "g5.xlarge",
        "market": "spot",
        "token": "t" * 64,
        "clean": False,
        "price_per_hour": Decimal("1.006"),
    }
    return Attempt(state=state, **{**facts, **changes})


def lease(state: LeaseState = LeaseState.QUEUED, **changes: Any) -> Lease:
    """Wanted in the states before releasing, with an hour to go and its deadline tag up to date."""
    wanted = state in (LeaseState.QUEUED, LeaseState.PROVISIONING, LeaseState.BOOTING, LeaseState.ACTIVE)
    facts: dict[str, Any] = {
        "id": LEASE,
        "tenant_id": TENANT,
        "desired": Desired.RUN if wanted else Desired.END,
        "reason": None,
        "request": LeaseRequest(ttl_seconds=3600),
        "on_interruption": OnInterruption.END,
        "created_at": ago(1000),
        "expires_at": ahead(3600),
        "wait_until": ahead(600),
        "pass_started_at": None,
        "running_at": None,
        "ready_at": None,
        "release_requested_at": None if wanted else ago(1),
        "attempts_count": 1 if changes.get("attempt") is not None else 0,
        "wake_count": 0,
    }
    facts |= changes
    facts.setdefault("deadline_applied", facts["expires_at"] + timedelta(seconds=TIMING.deadline_grace))
    return Lease(state=state, **facts)


def offering(name: str = "g5.xlarge", **changes: Any) -> Offering:
    """`market`, `region`, `zone`, `account`, `model`, `count`, `memory_gib`, `price`, or a field of Offering."""
    key = OfferingKey(
        account=changes.pop("account", "main"),
        region=changes.pop("region", "us-east-1"),
        zone=changes.pop("zone", "us-east-1a"),
        instance_type=name,
        market=changes.pop("market", Market.ON_DEMAND),
    )
    gpu = Gpu(
        model=changes.pop("model", "A10G"),
        count=changes.pop("count", 1),
        memory_gib=changes.pop("memory_gib", 24),
        interconnect=changes.pop("interconnect", Interconnect.PCIE),
        driver=changes.pop("driver", Driver.NVIDIA),
        parts=changes.pop("parts", 1),
    )
    price = changes.pop("price", "1.006")
    facts: dict[str, Any] = {
        "provider": "aws",
        "type": InstanceType(
            name=name, gpu=gpu, vcpus=4, memory_gib=Decimal(16), local_disk_gib=changes.pop("local_disk_gib", 232)
        ),
        "price_per_hour": Decimal(price) if price is not None else None,
        "price_as_of": NOW,
        "price_source": "list",
    }
    return Offering(key=key, **{**facts, **changes})


def cool_off(until: datetime) -> CoolOff:
    return CoolOff(until=until, reason="no_capacity", code="InsufficientInstanceCapacity", count=1)
