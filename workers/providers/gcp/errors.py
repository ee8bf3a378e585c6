"""What Compute Engine answers when it refuses, and what the caller must do then.

`REASONS` reads the `reason` of an HTTP answer, `CODES` the code inside an operation; a reason that is not in the table counts
by its HTTP status. What is in neither is an unknown outcome: never "no capacity", never "gone".
Reasons and codes: Compute Engine guide, "Troubleshooting resource availability errors" and "Resolve API errors".
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from google.api_core import exceptions as google
from google.auth import exceptions as auth
from google.protobuf.json_format import Error as JsonError
from urllib3 import exceptions as wire  # pyrefly: ignore[implicit-reexport]  # a module

from workers.providers.errors import (
    AccountBlocked,
    CredentialsRejected,
    InsufficientCapacity,
    InvalidSpec,
    NotFound,
    NotOffered,
    NotPermitted,
    NotReady,
    OutcomeUnknown,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
    Throttled,
    TokenConflict,
    Unreachable,
)

_REASONS: Mapping[type[ProviderError], tuple[str, ...]] = {
    InsufficientCapacity: (
        "insufficientCapacity",
        "stockout",
        "ZONE_RESOURCE_POOL_EXHAUSTED",
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    ),
    ProviderQuotaExceeded: ("quotaExceeded",),
    Throttled: ("rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded"),
    OutcomeUnknown: ("backendError", "internalError", "conditionNotMet", "resourceInUseByAnotherResource"),
    CredentialsRejected: (
        "authError",
        "forbidden",
        "insufficientPermissions",
        "accessNotConfigured",
        "billingNotEnabled",
        "BILLING_DISABLED",
    ),
    NotReady: ("resourceNotReady",),
    AccountBlocked: ("SERVICE_ACCOUNT_ACCESS_DENIED",),
    TokenConflict: ("alreadyExists",),
    NotFound: ("notFound",),
    InvalidSpec: ("invalid", "badRequest", "required", "invalidParameter", "invalidResourceUsage"),
}
MIN_COUNT = "VM_MIN_COUNT_NOT_REACHED"
"""The summary that Google puts before the causes in a failed instances.bulkInsert. It says nothing of the cause."""
INTERNAL, NO_RESOURCE = "INTERNAL_ERROR", "RESOURCE_NOT_FOUND"
_CODES: Mapping[type[ProviderError], tuple[str, ...]] = {
    InsufficientCapacity: (
        "REGION_RESOURCE_POOL_EXHAUSTED",
        "RESOURCE_POOL_EXHAUSTED",
        "ZONE_RESOURCE_POOL_EXHAUSTED",
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        "RESOURCE_NOT_READY",
        "UNSUPPORTED_OPERATION",
        "IP_SPACE_EXHAUSTED",
        "IP_SPACE_EXHAUSTED_WITH_DETAILS",
        MIN_COUNT,
    ),
    ProviderQuotaExceeded: ("LIMIT_EXCEEDED", "QUOTA_EXCEEDED"),
    Throttled: ("RATE_LIMIT_EXCEEDED", "RESOURCE_OPERATION_RATE_EXCEEDED"),
    OutcomeUnknown: (INTERNAL,),
    NotPermitted: ("PERMISSION_DENIED", "PERMISSIONS_ERROR", "CONDITION_NOT_MET"),
    AccountBlocked: ("SERVICE_ACCOUNT_ACCESS_DENIED",),
    TokenConflict: ("ALREADY_EXISTS", "RESOURCE_ALREADY_EXISTS"),
    InvalidSpec: (
        "FIELD_SIZE_TOO_LARGE",
        "INVALID_ARGUMENT",
        "INVALID_FIELD_VALUE",
        "INVALID_USAGE",
        "MISSING_REQUIRED_FIELD",
        "NETWORK_NOT_FOUND",
        "PROJECT_NOT_FOUND",
        "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
        NO_RESOURCE,
    ),
}

REASONS: Mapping[str, type[ProviderError]] = {name: error for error, names in _REASONS.items() for name in names}
CODES: Mapping[str, type[ProviderError]] = {name: error for error, names in _CODES.items() for name in names}
STATUSES: Mapping[int, type[ProviderError]] = {
    400: InvalidSpec,
    401: CredentialsRejected,
    403: CredentialsRejected,
    404: NotFound,
    409: TokenConflict,
    429: Throttled,
}

_NEVER_SENT = (wire.NewConnectionError, wire.ConnectTimeoutError, wire.NameResolutionError)
"""Name resolution or the TCP connection failed: no byte of the request has left."""

_FOREIGN = (
    google.GoogleAPICallError,
    auth.GoogleAuthError,
    requests.exceptions.RequestException,
    JsonError,
    TypeError,
    ValueError,
)
"""All that the SDK raises. JsonError, TypeError and ValueError: an answer of another shape."""

_NO_SUCH_OFFERING = ("machine type with name", "/machinetypes/", "/acceleratortypes/", "unknown zone")
"""What the message says where a zone lacks the machine type or the accelerators, or does not exist."""
INSERT_REFUSALS: Mapping[str | None, type[Refused]] = {
    "conditionNotMet": NotPermitted,
    "412": NotPermitted,
    "resourceInUseByAnotherResource": InvalidSpec,
}
"""Codes that refuse an insert, and that have no certain meaning for other calls. HTTP 412: an organisation policy."""
_BILLING_CODES = frozenset({"billingNotEnabled", "BILLING_DISABLED"})
_NO_SERVICE_ACCOUNT = "SERVICE_ACCOUNT_ACCESS_DENIED"
_NOT_THE_IMAGE = frozenset({"NETWORK_NOT_FOUND", "PROJECT_NOT_FOUND"})
"""Refusals that no image can cause."""
_LONGEST_MESSAGE = 300
_RENEW = "renew the credentials that Google's library finds (credentials_file, or application default ones)"
_GRANT = "grant the permissions listed in docs/providers/gcp.md to the identity that gpulease uses"
_ADVICE: Mapping[str, str] = {
    "forbidden": _GRANT,
    "insufficientPermissions": _GRANT,
    "PERMISSION_DENIED": _GRANT,
    "accessNotConfigured": "enable the Compute Engine API in this project",
    _NO_SERVICE_ACCOUNT: "grant iam.serviceAccounts.actAs on the service account of the VMs",
    "BILLING_DISABLED": "enable billing for this project",
    "billingNotEnabled": "enable billing for this project",
}


def translate(error: Exception) -> ProviderError:
    """The error of ours that says what to do about one of the SDK's."""
    match error:
        case google.GoogleAPICallError():
            return _answered(error)
        case auth.TransportError():
            return Unreachable(f"no access token: {_short(str(error))}", code=type(error).__name__)
        case auth.GoogleAuthError():
            return _not_signed_in(error)
        case requests.exceptions.RequestException():
            return _lost(error)
        case _:
            return OutcomeUnknown(_short(str(error)), code=type(error).__name__)


def may_have_inserted(error: ProviderError) -> bool:
    """Whether an insert operation that ended with this error may have created its VM all the same.

    Google then does not find the VM that it has just created, or has failed at a later step.
    """
    return error.code == INTERNAL or (error.code == NO_RESOURCE and "/instances/" in error.message)


def not_inserted(error: ProviderError) -> ProviderError:
    """The meaning of an error in a finished insert operation, where no VM shows: Google has created nothing.

    The repeated call with the same request id returns the same operation, so only a new attempt can succeed.
    """
    if may_have_inserted(error):
        return InsufficientCapacity(error.message, code=error.code)
    if isinstance(error, Refused | TokenConflict):
        return error
    return Refused(error.message, code=error.code)


def refusal(code: str, message: str) -> ProviderError:
    """The error of an operation that ended with one."""
    return _made(CODES.get(code, OutcomeUnknown), code, message)


def _answered(error: google.GoogleAPICallError) -> ProviderError:
    status = int(error.code or 0)
    reason = _reason(error)
    message = str(error.message)
    kind = REASONS.get(reason) or STATUSES.get(status, OutcomeUnknown)
    if status == 429:
        kind = Throttled
    if issubclass(kind, Throttled | NotReady):
        text = f"{reason}: {_short(message)}"
        return kind(text, code=reason or str(status), retry_after=_retry_after(error))
    return _made(kind, reason or str(status), message)


def _made(kind: type[ProviderError], code: str, message: str) -> ProviderError:
    text = f"{code}: {_short(message)}"
    if kind in {InvalidSpec, NotFound} and any(hint in message.lower() for hint in _NO_SUCH_OFFERING):
        kind = NotOffered
    if kind in {CredentialsRejected, AccountBlocked}:
        text = f"{text}; {_ADVICE.get(code, _RENEW)}"
    error = kind(text, code=code)
    if isinstance(error, Refused):
        error.may_concern_image &= code not in _NOT_THE_IMAGE
    return error


def _reason(error: google.GoogleAPICallError) -> str:
    details: list[Any] = list(error.errors or ())
    first = details[0] if details else None
    return str(first.get("reason", "")) if isinstance(first, dict) else ""


def _retry_after(error: google.GoogleAPICallError) -> float | None:
    """Seconds; Google counts by the minute and hardly ever says."""
    response: Any = error.response
    text = response.headers.get("retry-after", "") if response is not None else ""
    return float(text) if text.isdecimal() else None


def _not_signed_in(error: Exception) -> ProviderError:
    """Before the call itself: nothing was done. What may pass by itself does not set the account aside."""
    name = type(error).__name__
    if getattr(error, "retryable", False):
        return Unreachable(f"no access token: {_short(str(error))}", code=name)
    return CredentialsRejected(f"{_short(str(error))}; {_RENEW}", code=name)


def _lost(error: requests.exceptions.RequestException) -> ProviderError:
    cause: Any = error.args[0] if error.args else None
    cause = getattr(cause, "reason", cause)
    if isinstance(error, requests.exceptions.ConnectTimeout) or isinstance(cause, _NEVER_SENT):
        return Unreachable(_short(str(error)), code=type(error).__name__)
    return OutcomeUnknown(_short(str(error)), code=type(error).__name__, answered=False)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


@contextmanager
def fitting() -> Iterator[None]:
    """InvalidSpec for stored parameters that Google's API does not know. Its own text quotes values, scripts among them."""
    try:
        yield
    except (JsonError, TypeError, ValueError) as error:
        raise InvalidSpec("the parameters do not fit the Compute Engine API", code=type(error).__name__) from None


@contextmanager
def signing_in() -> Iterator[None]:
    """CredentialsRejected for credentials that cannot be read, or that are none."""
    try:
        yield
    except (auth.GoogleAuthError, OSError, ValueError) as error:
        raise _not_signed_in(error) from None


@contextmanager
def translated() -> Iterator[None]:
    """Lets only `ProviderError`s out of what is called inside."""
    try:
        yield
    except _FOREIGN as error:
        raise translate(error) from None


@contextmanager
def creating() -> Iterator[None]:
    """For instances.insert: gives the errors a meaning that their codes have only there. See `INSERT_REFUSALS`."""
    try:
        yield
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
    except CredentialsRejected as error:
        if error.code not in _BILLING_CODES:
            raise
        raise AccountBlocked(error.message, code=error.code) from None
    except OutcomeUnknown as error:
        refusal = INSERT_REFUSALS.get(error.code)
        if refusal is None:
            raise
        raise refusal(error.message, code=error.code) from None
