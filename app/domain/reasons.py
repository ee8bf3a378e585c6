"""Why a lease is where it is: `State says where, reason says why`."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self


class ReasonCode(StrEnum):
    """The cause of a state, for programs. The list may grow."""

    QUOTA_EXCEEDED = "quota_exceeded"
    CAPACITY_EXHAUSTED = "capacity_exhausted"
    PRICE_CAP = "price_cap"
    PROVIDER_QUOTA = "provider_quota"
    PROVIDER_AUTH = "provider_auth"
    PROVIDER_ERROR = "provider_error"
    LAUNCH_TIMEOUT = "launch_timeout"
    BOOT_TIMEOUT = "boot_timeout"
    IMAGE_MISSING = "image_missing"
    REQUEST_TOO_LONG = "request_too_long"
    REGION_NOT_LISTED = "region_not_listed"
    RELEASED_BY_USER = "released_by_user"
    RELEASED_BY_OPERATOR = "released_by_operator"
    EXPIRED = "expired"
    INTERRUPTED = "interrupted"
    INSTANCE_LOST = "instance_lost"
    TENANT_SUSPENDED = "tenant_suspended"
    RESERVATION_ENDED = "reservation_ended"
    SPEND_CAP = "spend_cap"
    BUDGET_EXCEEDED = "budget_exceeded"
    GPU_CHECK_FAILED = "gpu_check_failed"
    GPU_FAILED = "gpu_failed"
    IDLE = "idle"
    GROUP_POOL_FAILED = "group_pool_failed"
    GROUP_INCOMPLETE = "group_incomplete"
    GROUP_MEMBER_LOST = "group_member_lost"
    GROUP_SHRUNK = "group_shrunk"


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
        ReasonCode.REGION_NOT_LISTED,
        ReasonCode.LAUNCH_TIMEOUT,
        ReasonCode.BOOT_TIMEOUT,
        ReasonCode.INTERRUPTED,
        ReasonCode.INSTANCE_LOST,
        ReasonCode.GPU_CHECK_FAILED,
        ReasonCode.GPU_FAILED,
        ReasonCode.GROUP_POOL_FAILED,
        ReasonCode.GROUP_INCOMPLETE,
        ReasonCode.GROUP_MEMBER_LOST,
    }
)
"""Asking again later may succeed without changing the request."""

BY_WISH = frozenset({ReasonCode.RELEASED_BY_USER, ReasonCode.RELEASED_BY_OPERATOR, ReasonCode.GROUP_SHRUNK})
"""Reasons that end a lease as `released` even when it never became active."""


PROVIDER_MESSAGE = "provider_message"
"""Key of the stored form that only operators are shown."""


@dataclass(frozen=True, slots=True)
class Reason:
    """`message` is one sentence for a person; it never carries secrets, another tenant's facts or a provider's words.

    `provider_message`: the provider's words, for operators alone.
    """

    code: ReasonCode
    message: str
    origin: Origin = Origin.SYSTEM
    provider_message: str | None = None

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

    def as_stored(self) -> dict[str, Any]:
        """`as_json` with the provider's words, where there are any: for the lease's row and nothing else."""
        words = {PROVIDER_MESSAGE: self.provider_message} if self.provider_message is not None else {}
        return self.as_json() | words

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Reads `as_json` and `as_stored`. Raises KeyError or ValueError on anything else."""
        return cls(ReasonCode(value["code"]), value["message"], Origin(value["origin"]), value.get(PROVIDER_MESSAGE))


SUSPENDED = Reason(ReasonCode.TENANT_SUSPENDED, "The tenant was suspended.", Origin.OPERATOR)

BLOCKED = "; not ended yet: "
"""Stands in the message of a lease's reason before what keeps the lease from ending."""


def without_obstacle(reason: Reason) -> Reason:
    """The reason as it was before anything kept the lease from ending."""
    return replace(reason, message=reason.message.partition(BLOCKED)[0])


def vm_obstacle(code: str) -> str:
    """The provider does not accept to end the VM. `code`: the provider's own."""
    return f"the provider does not end the VM ({code})"


def leftover_obstacle(kind: str, code: str) -> str:
    """The provider does not remove a leftover resource."""
    return f"a leftover {kind} cannot be removed ({code})"


def in_use_obstacle(kind: str) -> str:
    """Something still uses a leftover resource."""
    return f"a leftover {kind} is still in use"
