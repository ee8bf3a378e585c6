"""The types of events."""

from enum import StrEnum


class EventType(StrEnum):
    """What an event reports. The list may grow."""

    LEASE_QUEUED = "lease.queued"
    LEASE_PROVISIONING = "lease.provisioning"
    LEASE_BOOTING = "lease.booting"
    LEASE_ACTIVE = "lease.active"
    LEASE_RELEASING = "lease.releasing"
    LEASE_RELEASE_BLOCKED = "lease.release_blocked"
    LEASE_RELEASED = "lease.released"
    LEASE_FAILED = "lease.failed"
    LEASE_UPDATED = "lease.updated"
    LEASE_EXTENDED = "lease.extended"
    LEASE_EXPIRING_SOON = "lease.expiring_soon"
    LEASE_CAP_NEAR = "lease.cap_near"
    LEASE_PRICE_CHANGED = "lease.price_changed"
    LEASE_HOST_KEYS = "lease.host_keys"
    LEASE_REBOOTING = "lease.rebooting"
    LEASE_REBOOTED = "lease.rebooted"
    LEASE_REBOOT_FAILED = "lease.reboot_failed"
    LEASE_INTERRUPTION_NOTICE = "lease.interruption_notice"
    LEASE_ADOPTED = "lease.adopted"
    ATTEMPT_PLANNED = "attempt.planned"
    ATTEMPT_LAUNCHED = "attempt.launched"
    ATTEMPT_SETTLING = "attempt.settling"
    ATTEMPT_REFUSED = "attempt.refused"
    ATTEMPT_DEAD = "attempt.dead"
    QUOTA_NEARLY_USED = "quota.nearly_used"
    ORPHAN_ENDED = "orphan.ended"
