"""What a provider's VM tells, in the form that is stored."""

import json
from collections.abc import Mapping
from typing import Any

from workers.providers.errors import (
    ImageMissing,
    InsufficientCapacity,
    InvalidSpec,
    NotOffered,
    PriceTooLow,
    ProviderQuotaExceeded,
    Refused,
)
from workers.providers.types import Vm

_REFUSALS = {
    kind.__name__: kind
    for kind in (ImageMissing, InsufficientCapacity, InvalidSpec, NotOffered, PriceTooLow, ProviderQuotaExceeded)
}


def reason_json(vm: Vm) -> str | None:
    """Why a VM ends: JSON {code, message, interrupted, refusal}; None while it lives."""
    if vm.state_reason is None and not vm.interrupted:
        return None
    refusal = vm.refusal.__name__ if vm.refusal is not None else None
    return json.dumps({**(vm.state_reason or {}), "interrupted": vm.interrupted, "refusal": refusal})


def refusal(reason: Mapping[str, Any]) -> Refused | None:
    """The refusal that a stored reason tells of: the VM was accepted and then not made."""
    kind = _REFUSALS.get(reason.get("refusal") or "")
    if kind is None:
        return None
    return kind(reason.get("message") or "no reason given", code=reason.get("code"))
