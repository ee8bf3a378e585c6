"""What needs a person's attention."""

from enum import StrEnum


class AttentionCode(StrEnum):
    """Why something needs attention, the most urgent first."""

    INTERRUPTED = "interrupted"
    STUCK = "stuck"
    FAILED = "failed"
    EXPIRING_SOON = "expiring_soon"
    QUOTA_NEARLY_USED = "quota_nearly_used"
