"""When a stopped VM is believed: after a second answer that is apart in time, or an answer that names a definite cause.

One answer of a cloud may be incomplete, or out of date. A VM that it shows as stopped may run.
"""

from datetime import datetime, timedelta

from app.domain.leases import Attempt, VmState

LONGEST_GAP = timedelta(seconds=30)
"""Between the first answer that shows a VM as stopped and the direct read that confirms it."""


def is_unconfirmed(attempt: Attempt, *, ran: bool) -> bool:
    """Whether one answer alone shows the attempt's VM as stopped, without a definite cause.

    An interruption is definite, and so is the late refusal of a VM that never ran. So is the end of a VM whose
    termination gpulease has requested. `ran`: the VM was seen running, so a failure may concern a later operation.
    """
    if attempt.vm_state is not VmState.STOPPED or attempt.terminate_sent_at is not None:
        return False
    reason = attempt.vm_reason or {}
    refused = bool(reason.get("refusal")) and not ran
    return not (reason.get("interrupted") or refused or reason.get("confirmed"))


def confirm_at(attempt: Attempt, gap: float) -> datetime | None:
    """When to read an unconfirmed stop again: `gap` seconds after the first answer, 30 at most. None: at once."""
    seen_at = (attempt.vm_reason or {}).get("seen_at")
    return None if seen_at is None else datetime.fromisoformat(seen_at) + min(timedelta(seconds=gap), LONGEST_GAP)
