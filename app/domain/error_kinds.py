"""Kinds of provider errors: what an attempt's `error.class` holds. The words cross all rings, the classes do not."""

from enum import StrEnum


class ErrorKind(StrEnum):
    """Each value is the name of a class of error in `workers.providers`, or of what gpulease itself has found."""

    # refusals: definitely not created
    REFUSED = "Refused"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    NETWORK_FULL = "NetworkFull"
    PROVIDER_QUOTA_EXCEEDED = "ProviderQuotaExceeded"
    NOT_OFFERED = "NotOffered"
    INVALID_SPEC = "InvalidSpec"
    IMAGE_MISSING = "ImageMissing"
    PRICE_TOO_LOW = "PriceTooLow"
    NOT_PERMITTED = "NotPermitted"
    ACCOUNT_BLOCKED = "AccountBlocked"
    REGION_BLOCKED = "RegionBlocked"
    CREDENTIALS_REJECTED = "CredentialsRejected"
    IDENTITY_CHANGED = "IdentityChanged"
    # not done
    THROTTLED = "Throttled"
    NOT_READY = "NotReady"
    UNREACHABLE = "Unreachable"
    SEND_EXPIRED = "SendExpired"
    # anything may have happened
    PROVIDER_ERROR = "ProviderError"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    NOT_FOUND = "NotFound"
    TOKEN_CONFLICT = "TokenConflict"  # noqa: S105 - no password
    # found by gpulease
    NEVER_SEEN = "NeverSeen"
    LOST = "Lost"
    VM_ENDED = "VmEnded"
    LAUNCH_TIMEOUT = "LaunchTimeout"
    GPU_CHECK_FAILED = "GpuCheckFailed"
    MASS_LOSS = "MassLoss"
