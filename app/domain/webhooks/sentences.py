"""One plain sentence for each event, as people read it in a chat."""

from collections.abc import Mapping
from typing import Any

from app.domain.event_types import EventType

SENTENCES: Mapping[str, str] = {
    EventType.LEASE_QUEUED: "Lease {lease} waits for a VM.",
    EventType.LEASE_PROVISIONING: "Lease {lease} launches a VM{place}.",
    EventType.LEASE_BOOTING: "Lease {lease} has a VM that boots.",
    EventType.LEASE_ACTIVE: "Lease {lease} is ready to use.",
    EventType.LEASE_RELEASING: "Lease {lease} is ending{reason}.",
    EventType.LEASE_RELEASE_BLOCKED: "Lease {lease} cannot end{obstacle}.",
    EventType.LEASE_RELEASED: "Lease {lease} has ended{reason}.",
    EventType.LEASE_FAILED: "Lease {lease} has failed{reason}.",
    EventType.LEASE_UPDATED: "The name, the labels, the spend cap or the warnings of lease {lease} were changed.",
    EventType.LEASE_EXTENDED: "Lease {lease} was extended until {expires_at}.",
    EventType.LEASE_EXPIRING_SOON: "Lease {lease} ends at {ends_at}.",
    EventType.LEASE_HOST_KEYS: "The VM of lease {lease} reported its SSH host keys.",
    EventType.LEASE_REBOOTING: "The VM of lease {lease} will be rebooted.",
    EventType.LEASE_REBOOTED: "The VM of lease {lease} was rebooted.",
    EventType.LEASE_REBOOT_FAILED: "The VM of lease {lease} could not be rebooted{error}.",
    EventType.LEASE_INTERRUPTION_NOTICE: "The provider will interrupt the VM of lease {lease}{deadline}.",
    EventType.LEASE_ADOPTED: "Lease {lease} was rebuilt from the tags of its VM.",
    EventType.LEASE_PROOF: "The proof of the GPUs of lease {lease}: {status}{finding}.",
    EventType.LEASE_GPU_HEALTH: "The GPUs of lease {lease} are {status}{finding}.",
    EventType.LEASE_IDLE_SOON: "The GPUs of lease {lease} are idle since {idle_since}.",
    EventType.LEASE_IDLE: "The GPUs of lease {lease} were idle for {gpu_hours} GPU-hours, which cost {cost} USD.",
    EventType.LEASE_KEPT: "A user keeps lease {lease}: it does not count as idle before {keep_until}.",
    EventType.LEASE_BENCHMARK: "The VM of lease {lease} measured {gpus} GPUs.",
    EventType.ATTEMPT_GPU_CHECK_FAILED: "The GPUs of a VM of lease {lease} failed their check{place}{finding}.",
    EventType.ATTEMPT_PLANNED: "Lease {lease} tries another offering{place}.",
    EventType.ATTEMPT_LAUNCHED: "The provider created the VM of lease {lease}{place}.",
    EventType.ATTEMPT_SETTLING: "The provider did not answer whether it created the VM of lease {lease}.",
    EventType.ATTEMPT_REFUSED: "The provider refused a VM for lease {lease}{place}{error}.",
    EventType.ATTEMPT_DEAD: "An attempt of lease {lease} to have a VM has ended{place}.",
    EventType.QUOTA_NEARLY_USED: "Nine tenths of the quota {resource} are used: {used} of {limit}.",
    EventType.ORPHAN_ENDED: "A VM that outlived lease {lease} was deleted.",
    EventType.LEASE_CAP_NEAR: "Lease {lease} has cost {accrued} of its spend cap of {max_cost} USD. It ends at {ends_at}.",
    EventType.LEASE_IDLE_SOON: "The GPUs of lease {lease} are idle since {idle_since}.",
    EventType.LEASE_IDLE: "The GPUs of lease {lease} were idle for {gpu_hours} GPU-hours, which cost {cost} USD.",
    EventType.LEASE_KEPT: "A user keeps lease {lease}: it does not count as idle before {keep_until}.",
    EventType.LEASE_PRICE_CHANGED: "The price of lease {lease} changed from {previous_price_per_hour} to {price_per_hour} USD an hour.",
    EventType.BUDGET_THRESHOLD: "A budget has reached {threshold} %: {spent} USD are spent and {committed} committed, of {amount}.",
    EventType.GROUP_QUEUED: "Group {name} waits for a place for {size} VMs.",
    EventType.GROUP_FORMING: "Group {group_id} launches its members.",
    EventType.GROUP_POOL_FAILED: "Group {group_id} did not form in a pool: {ready} members were ready{reason}.",
    EventType.GROUP_ACTIVE: "All {size} members of group {group_id} are ready.",
    EventType.GROUP_DEGRADED: "Group {group_id} goes on with {ready} of {size} members{reason}.",
    EventType.GROUP_MEMBER_LOST: "Group {group_id} has lost member {rank}{reason}.",
    EventType.GROUP_RESIZED: "The size of group {group_id} changed from {previous_size} to {size}.",
    EventType.GROUP_RELEASING: "Group {group_id} is ending{reason}.",
    EventType.GROUP_ENDED: "Group {group_id} has ended{reason}.",
    "webhook.test": "This is a test of a gpulease webhook.",
}
"""By type. A name in braces is a field of the event, or a part that `_parts` makes."""


def sentence(event_type: str, about: Mapping[str, Any], *, lease_name: str | None) -> str:
    """What happened. `about`: the `data` of a message. `lease_name` None: the lease's id stands for it."""
    template = SENTENCES.get(event_type, f"The event {event_type} happened.")
    return template.format_map(_Parts(about, lease_name))


class _Parts(dict[str, str]):
    """The fields of an event as text. A field that the event lacks is `unknown`."""

    def __init__(self, about: Mapping[str, Any], lease_name: str | None) -> None:
        plain = {name: str(value) for name, value in about.items() if isinstance(value, str | int | float)}
        super().__init__(plain)
        self["lease"] = lease_name or plain.get("lease_id", "")
        self["reason"] = _clause(about.get("reason"), "message")
        self["error"] = _clause(about.get("error"), "message")
        findings = about.get("findings") or [None]
        self["finding"] = _clause(findings[0], "message")
        self["obstacle"] = f": {plain['obstacle']}" if "obstacle" in plain else ""
        offering = about.get("offering") or {}
        place = f", {offering.get('instance_type')} in {offering.get('zone')}"
        self["place"] = place if offering.get("zone") else ""
        self["deadline"] = f" at {plain['deadline_at']}" if "deadline_at" in plain else ""

    def __missing__(self, name: str) -> str:
        return self.get("expires_at", "unknown") if name == "ends_at" else "unknown"


def _clause(part: Any, name: str) -> str:
    """`: ` and the message, without its full stop. Empty without a message."""
    message = part.get(name) if isinstance(part, Mapping) else None
    return f": {message.rstrip('.')}" if message else ""
