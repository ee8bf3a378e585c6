"""Brakes: what keeps gpulease from launching or ending VMs. Log, metrics, summary and accounts use these names."""

from enum import StrEnum


class BrakeName(StrEnum):
    """See docs/operations.md for when each one is set, what it stops, and how it ends."""

    HOLD = "hold"
    LAUNCHES_STOPPED = "launches_stopped"
    PINNED_IDENTITY = "pinned_identity"
    CREDENTIALS_REJECTED = "credentials_rejected"
    CORDON = "cordon"
    OFFERING_CORDON = "offering_cordon"
    DRAINING = "draining"
    ACCOUNT_BLOCKED = "account_blocked"
    SILENCE = "silence"
    VANISHED = "vanished"
    ROWLESS = "rowless"
    FIRST_LISTING = "first_listing"
    REGION_LEFT = "region_left"


OF_INSTALLATION = (BrakeName.HOLD, BrakeName.LAUNCHES_STOPPED)
OF_ACCOUNT = (BrakeName.PINNED_IDENTITY, BrakeName.CREDENTIALS_REJECTED, BrakeName.CORDON, BrakeName.DRAINING)
OF_REGION = (
    BrakeName.OFFERING_CORDON,
    BrakeName.ACCOUNT_BLOCKED,
    BrakeName.SILENCE,
    BrakeName.VANISHED,
    BrakeName.ROWLESS,
    BrakeName.FIRST_LISTING,
    BrakeName.REGION_LEFT,
)
