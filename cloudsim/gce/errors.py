"""Google's errors: those that are an HTTP answer, and those inside an operation."""

from __future__ import annotations

from typing import Any

THROTTLED = "rateLimitExceeded"
TROUBLE = "backendError"

_STATUS = {
    "invalid": 400,
    "badRequest": 400,
    "required": 400,
    "invalidParameter": 400,
    "invalidResourceUsage": 400,
    "resourceInUseByAnotherResource": 400,
    "resourceNotReady": 400,
    "authError": 401,
    "forbidden": 403,
    "accessNotConfigured": 403,
    "insufficientPermissions": 403,
    "billingNotEnabled": 403,
    "quotaExceeded": 403,
    THROTTLED: 403,
    "notFound": 404,
    "alreadyExists": 409,
    "conditionNotMet": 412,
    "internalError": 500,
    TROUBLE: 503,
}
"""HTTP status by reason; a reason that is not here is a 400."""


FRONT_END = "HTTP "
"""A reason of this beginning names a status alone: Google's front ends answer so, before the API has read the call."""
_STATUS_NAMES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}


class GceError(Exception):
    """An error answer: `reason` is Google's, `status` the HTTP status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.is_of_front_end = reason.startswith(FRONT_END)
        self.status = int(reason.removeprefix(FRONT_END)) if self.is_of_front_end else _STATUS.get(reason, 400)

    @property
    def page(self) -> str | None:
        """The HTML page of a front end without an API behind it, None where the answer is JSON."""
        if not self.is_of_front_end or self.status < 500:
            return None
        return f"<!DOCTYPE html><html><title>Error {self.status} (Server Error)!!1</title></html>"

    def body(self) -> dict[str, Any]:
        """As it is sent. A front end gives no list of errors."""
        if self.is_of_front_end:
            name = _STATUS_NAMES.get(self.status, "UNKNOWN")
            return {"error": {"code": self.status, "message": self.message, "status": name}}
        error = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [error]}}


def is_operation_code(code: str) -> bool:
    """Codes of operations are written in capitals, reasons of HTTP answers are not."""
    return code == code.upper()


def not_found(what: str) -> GceError:
    """Google's wording for what does not exist."""
    return GceError("notFound", f"The resource '{what}' was not found")


def invalid(field: str, why: str) -> GceError:
    """Google's wording for a field that it does not take."""
    return GceError("invalid", f"Invalid value for field '{field}': {why}")
