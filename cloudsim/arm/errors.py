"""Resource Manager's errors and the HTTP status that each code travels with."""

from __future__ import annotations

THROTTLED = "TooManyRequests"

_STATUS = {
    "AuthenticationFailed": 401,
    "ExpiredAuthenticationToken": 401,
    "InvalidAuthenticationToken": 401,
    "AuthorizationFailed": 403,
    "RequestDisallowedByPolicy": 403,
    "FeatureNotFound": 404,
    "InvalidResourceNamespace": 404,
    "MissingSubscriptionRegistration": 409,
    "NotFound": 404,
    "PlatformImageNotFound": 404,
    "ResourceGroupNotFound": 404,
    "ResourceNotFound": 404,
    "SubscriptionNotFound": 404,
    "AllocationFailed": 409,
    "AnotherOperationInProgress": 409,
    "InvalidResourceLocation": 409,
    "Conflict": 409,
    "OperationNotAllowed": 409,
    "OverconstrainedAllocationRequest": 409,
    "OverconstrainedZonalAllocationRequest": 409,
    "PropertyChangeNotAllowed": 409,
    "QuotaExceeded": 409,
    "ReadOnlyDisabledSubscription": 409,
    "ScopeLocked": 409,
    "SkuNotAvailable": 409,
    "ZonalAllocationFailed": 409,
    "PreconditionFailed": 412,
    THROTTLED: 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "GatewayTimeout": 504,
}
"""Everything else is 400."""


class ArmError(Exception):
    """An error answer: `code` is Azure's, `status` the HTTP status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = _STATUS.get(code, 400)


def locked(scope: str) -> ArmError:
    """ScopeLocked in Azure's wording: a lock forbids to delete `scope`."""
    return ArmError(
        "ScopeLocked",
        f"The scope '{scope}' cannot perform delete operation because following scope(s) are locked: '{scope}'. "
        "Please remove the lock and try again.",
    )


def not_found(kind: str, name: str, group: str) -> ArmError:
    """ResourceNotFound in Azure's wording."""
    return ArmError("ResourceNotFound", f"The Resource '{kind}/{name}' under resource group '{group}' was not found.")
