"""What a provider's VM tells, in the form that is stored."""

import json

from workers.providers.base import Vm


def reason_json(vm: Vm) -> str | None:
    """Why a VM ends: JSON {code, message, interrupted}; None while it lives."""
    if vm.state_reason is None and not vm.interrupted:
        return None
    return json.dumps({**(vm.state_reason or {}), "interrupted": vm.interrupted})
