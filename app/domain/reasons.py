"""Why a lease is where it is: `State says where, reason says why`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class ReasonCode(StrEnum):
    """Public codes: once set they are set. The list may grow."""

    QUOTA_EXCEEDED = "quota_exceeded"
    CAPACITY_EXHAUSTED = "capacity_exhausted"
    PRICE_CAP = "price_cap"
    PROVIDER_QUOTA = "provider_quota"
    PROVIDER_AUTH = "provider_auth"
    PROVIDER_ERROR = "provider_error"
    LAUNCH_TIMEOUT = "launch_timeout"
    BOOT_TIMEOUT = "boot_timeout"
    IMAGE_MISSING = "image_missing"
    RELEASED_BY_USER = "released_by_user"
    RELEASED_BY_OPERATOR = "released_by_operator"
    EXPIRED = "expired"
    INTERRUPTED = "interrupted"
    INSTANCE_LOST = "instance_lost"
    HOST_MAINTENANCE = "host_maintenance"
    TENANT_SUSPENDED = "tenant_suspended"


class Origin(StrEnum):
    """Who caused it."""

    USER = "user"
    OPERATOR = "operator"
    PROVIDER = "provider"
    SYSTEM = "system"


RETRYABLE = frozenset(
    {
        ReasonCode.CAPACITY_EXHAUSTED,
        ReasonCode.PROVIDER_QUOTA,
        ReasonCode.PROVIDER_ERROR,
        ReasonCode.LAUNCH_TIMEOUT,
        ReasonCode.BOOT_TIMEOUT,
        ReasonCode.INTERRUPTED,
        ReasonCode.INSTANCE_LOST,
        ReasonCode.HOST_MAINTENANCE,
    }
)
"""Asking again later may succeed without changing the request."""

BY_WISH = frozenset({ReasonCode.RELEASED_BY_USER, ReasonCode.RELEASED_BY_OPERATOR})
"""Reasons that end a lease as `released` even when it never became active."""


@dataclass(frozen=True, slots=True)
class Reason:
    """`message` is one sentence for a person; it never carries secrets or another tenant's facts."""

    code: ReasonCode
    message: str
    origin: Origin = Origin.SYSTEM

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE

    def as_json(self) -> dict[str, Any]:
        """The public form {code, message, origin, retryable}."""
        return {
            "code": str(self.code),
            "message": self.message,
            "origin": str(self.origin),
            "retryable": self.retryable,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Reads `as_json`. Raises KeyError or ValueError on anything else."""
        return cls(ReasonCode(value["code"]), value["message"], Origin(value["origin"]))
