"""The reason for the end of a provider's VM, in its stored form."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.domain.leases import VmState
from workers.providers import errors
from workers.providers.errors import CredentialsRejected, NotPermitted, Refused
from workers.providers.types import Vm


def reason_json(vm: Vm, seen_at: datetime, *, confirmed: bool = False) -> str | None:
    """Why a VM ends: JSON {code, message, interrupted, refusal, stopped_at, seen_at, confirmed}; None while it lives.

    `stopped_at`: for an interrupted VM that stays until gpulease deletes it, the time when it was stopped, else when it
    was seen stopped (`seen_at`). Its billing ends then. `seen_at`, `confirmed`: of a stopped VM, when an answer first
    showed it, and whether a direct read has confirmed it (app.domain.stopped_vms).
    """
    is_stopped = vm.state is VmState.STOPPED
    if vm.state_reason is None and not vm.interrupted and not is_stopped:
        return None
    refusal = vm.refusal.__name__ if vm.refusal is not None else None
    facts = {**(vm.state_reason or {}), "interrupted": vm.interrupted, "refusal": refusal}
    if is_stopped:
        facts |= {"seen_at": seen_at.isoformat(), "confirmed": confirmed}
    if vm.interrupted and is_stopped:
        facts["stopped_at"] = (vm.ended_at or seen_at).isoformat()
    return json.dumps(facts)


def refusal(reason: Mapping[str, Any]) -> Refused | None:
    """The refusal in a stored reason: the provider accepted the VM and then did not create it."""
    kind = getattr(errors, reason.get("refusal") or "", None)
    if not isinstance(kind, type) or not issubclass(kind, Refused):
        return None
    if kind is CredentialsRejected:
        kind = NotPermitted  # the provider accepted the call, so it knows the credentials
    return kind(reason.get("message") or "no reason given", code=reason.get("code"))
