"""Cool-off: for how long an offering is set aside after a refusal, or after it took a VM back.

Pauses double with each refusal in a row, up to `longest`: `app.db.fleet.offering_stats` counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from app.domain.error_kinds import ErrorKind
from app.domain.reasons import ReasonCode

SHORTEST_BLOCK = timedelta(minutes=10)
LONGEST_BLOCK = timedelta(hours=1)
"""How long an account or region is set aside in which the provider refuses every launch: at first, and at most."""


class CoolOffReason(StrEnum):
    """Why an offering is set aside. Offerings show it."""

    NO_CAPACITY = "no_capacity"
    PROVIDER_QUOTA = "provider_quota"
    NOT_OFFERED = "not_offered"
    PROVIDER_ERROR = "provider_error"
    REFUSED = "refused"
    IMAGE_MISSING = "image_missing"
    INTERRUPTED = "interrupted"
    BOOT_TIMEOUT = "boot_timeout"
    LAUNCH_TIMEOUT = "launch_timeout"
    GPU_CHECK_FAILED = "gpu_check_failed"


FORGEABLE = frozenset({CoolOffReason.BOOT_TIMEOUT, CoolOffReason.GPU_CHECK_FAILED})
"""What root in a VM can bring about. VMs of two tenants must show it before it concerns others: see docs/trust.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolOffSeconds:
    """The settings: first pauses by cause, and `outage_longest`, the longest pause for a cloud that does not answer."""

    capacity: float
    quota: float
    not_offered: float
    outage: float
    outage_longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolOffPause:
    """`seconds`: after the first refusal. `longest`: the bound of its doubling."""

    seconds: float
    longest: float
    reason: CoolOffReason


_BY_KIND: Mapping[ErrorKind, CoolOffReason] = MappingProxyType(
    {
        ErrorKind.INSUFFICIENT_CAPACITY: CoolOffReason.NO_CAPACITY,
        ErrorKind.NETWORK_FULL: CoolOffReason.NO_CAPACITY,
        ErrorKind.PRICE_TOO_LOW: CoolOffReason.NO_CAPACITY,
        ErrorKind.PROVIDER_QUOTA_EXCEEDED: CoolOffReason.PROVIDER_QUOTA,
        ErrorKind.NOT_OFFERED: CoolOffReason.NOT_OFFERED,
        ErrorKind.OUTCOME_UNKNOWN: CoolOffReason.PROVIDER_ERROR,
        ErrorKind.UNREACHABLE: CoolOffReason.PROVIDER_ERROR,
    }
)
_BY_END: Mapping[ReasonCode, CoolOffReason] = MappingProxyType(
    {
        ReasonCode.INTERRUPTED: CoolOffReason.INTERRUPTED,
        ReasonCode.BOOT_TIMEOUT: CoolOffReason.BOOT_TIMEOUT,
        ReasonCode.LAUNCH_TIMEOUT: CoolOffReason.LAUNCH_TIMEOUT,
    }
)


REFUSAL_REASONS = frozenset({*_BY_KIND.values(), CoolOffReason.REFUSED})
"""Values of `refusal_reason`."""


def refusal_reason(kind: ErrorKind) -> CoolOffReason:
    """The reason of a launch that ended with an error of this kind, in the words of offerings."""
    return _BY_KIND.get(kind, CoolOffReason.REFUSED)


def after_error(kind: ErrorKind, times: CoolOffSeconds) -> CoolOffPause:
    """For an offering whose launch ended with an error of this kind."""
    reason = refusal_reason(kind)
    seconds = {
        CoolOffReason.NO_CAPACITY: times.capacity,
        CoolOffReason.NOT_OFFERED: times.not_offered,
        CoolOffReason.PROVIDER_ERROR: times.outage,
    }.get(reason, times.quota)
    most = times.outage_longest if reason is CoolOffReason.PROVIDER_ERROR else times.not_offered
    return CoolOffPause(seconds=seconds, longest=max(seconds, most), reason=reason)


def after_end(code: ReasonCode | None, times: CoolOffSeconds) -> CoolOffPause | None:
    """For an offering whose VM the provider took back, or that was not ready in time. None: nothing is wrong with it."""
    if code is None:
        return None
    reason = _BY_END.get(code)
    if reason is None:
        return None
    return CoolOffPause(seconds=times.capacity, longest=times.not_offered, reason=reason)


def cause_of_loss(vm_reason: Mapping[str, Any] | None, *, did_not_start: bool) -> ReasonCode | None:
    """What the end of a wanted VM says about its offering: only what the provider names as its own doing.

    `vm_reason`: as the attempt stores it. None: nothing. The tenant may have ended the VM from inside, or somebody
    through the provider's own API. An end without a cause says as little.
    """
    if did_not_start:
        return ReasonCode.LAUNCH_TIMEOUT
    return ReasonCode.INTERRUPTED if (vm_reason or {}).get("interrupted") else None


def after_gpu_check(times: CoolOffSeconds) -> CoolOffPause:
    """For an offering whose VM had broken GPUs, as the VM reports."""
    return CoolOffPause(seconds=times.capacity, longest=times.not_offered, reason=CoolOffReason.GPU_CHECK_FAILED)


def after_problem(reason: CoolOffReason, seconds: float) -> CoolOffPause:
    """For a place that cannot be used at present: `seconds` each time, since nothing was launched there."""
    return CoolOffPause(seconds=seconds, longest=seconds, reason=reason)
