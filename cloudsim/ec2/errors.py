"""AWS errors and the HTTP status that each code travels with."""

from __future__ import annotations

THROTTLED = "RequestLimitExceeded"
JSON_THROTTLED = "ThrottlingException"

_STATUS = {
    "AuthFailure": 401,
    "DryRunOperation": 412,
    "InsufficientAddressCapacity": 500,
    "InsufficientCapacity": 500,
    "InsufficientHostCapacity": 500,
    "InsufficientInstanceCapacity": 500,
    "InsufficientReservedInstanceCapacity": 500,
    "InternalError": 500,
    "InternalFailure": 500,
    "InternalServerError": 500,
    "ServerInternal": 500,
    "ServiceUnavailable": 503,
    "Unavailable": 503,
    "RequestLimitExceeded": 503,
    "Throttling": 503,
    "AccessDenied": 403,
    "AccessDeniedException": 400,
    "ExpiredToken": 403,
    "InvalidClientTokenId": 403,
    "OptInRequired": 403,
    "RequestExpired": 403,
    "SignatureDoesNotMatch": 403,
    "UnauthorizedOperation": 403,
}
"""Everything else is 400. EC2 documents 5xx for server errors, capacity among them."""


class AwsError(Exception):
    """An error answer: `code` is AWS's, `status` the HTTP status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = _STATUS.get(code, 400)


def dry_run() -> AwsError:
    """What EC2 answers to a permitted call with DryRun."""
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")


def bad_value(value: object, parameter: str, why: str = "") -> AwsError:
    """InvalidParameterValue in EC2's wording."""
    return AwsError("InvalidParameterValue", f"Value ({value}) for parameter {parameter} is invalid. {why}".strip())
