"""What Azure Resource Manager answers when it refuses, and what the caller must do then.

`CODES` is the whole table, with the few rules on the HTTP status in `_kind`. A code that is not in it is an unknown
outcome: never "no capacity", never "gone". Azure reports the same codes in answers and, once a VM was accepted, in its
instance view. Case does not count: Azure's pages and answers differ in it. Codes: Azure docs, "Troubleshoot common Azure
deployment errors", "Troubleshoot allocation failures", "Error messages for Azure Spot Virtual Machines", "Understand
common error messages when you manage virtual machines in Azure".
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from azure.core import exceptions as core
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

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
    PriceTooLow,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
    Throttled,
    TokenConflict,
    Unreachable,
    unlisted,
)

GONE = "ResourceNotFound"
"""The code that says that this one thing does not exist; other kinds of NotFound say so of its group."""

_IN_PROGRESS = "AnotherOperationInProgress"
"""After a create call, the other operation may be an earlier create call of the same VM."""
_RETRYABLE = "RetryableError"
"""The network service answers with this code, and HTTP status 429. The details contain the code of the reason."""

_VM_EXISTS = (
    "DiskPreparationError",
    "DiskProcessingError",
    "OSProvisioningClientError",
    "OSProvisioningInternalError",
    "OSProvisioningTimedOut",
    "VMAgentStatusCommunicationError",
    "VMExtensionHandlerNonTransientError",
    "VMExtensionProvisioningError",
    "VMExtensionProvisioningTimeout",
    "VMStartTimedOut",
)
"""Failures of a VM that Azure has made: such a code never means that a create call was refused."""

INTERNAL_FAILURES = frozenset(
    {
        "InternalDiskManagementError",
        "InternalExecutionError",
        "InternalOperationError",
        "NetworkingInternalOperationError",
    }
)
"""Azure could not make the VM. In an answer such a code proves nothing; in the instance view the launch is over."""

_TABLE: Mapping[type[ProviderError], tuple[str, ...]] = {
    InsufficientCapacity: (
        "AllocationFailed",
        "ZonalAllocationFailed",
        "OverconstrainedAllocationRequest",
        "OverconstrainedZonalAllocationRequest",
        "SubnetIsFull",
    ),
    NotOffered: (
        "SkuNotAvailable",
        "VMSizeNotSupported",
        "AvailabilityZoneNotSupported",
        "AzureSpotIsNotSupportedForThisVMSize",
        "LocationNotAvailableForResourceType",
        "RegionDoesNotAllowProvisioning",
        "RequestDisallowedByAzure",
    ),
    AccountBlocked: ("ReadOnlyDisabledSubscription", "SubscriptionNotRegistered", "VMStoppedToWarnSubscription"),
    NotPermitted: (
        "AzureSpotFeatureNotEnabledForSubscription",
        "DisallowedOperation",
        "RequestDisallowedByPolicy",
        "SubscriptionNotAuthorizedForImage",
    ),
    PriceTooLow: ("SpotPriceGreaterThanProvidedMaxPrice",),
    ProviderQuotaExceeded: (
        "QuotaExceeded",
        "ResourceQuotaExceeded",
        "IPv4StandardSkuPublicIpCountLimitReached",
        "PublicIPCountLimitReached",
        "StaticPublicIPCountLimitReached",
    ),
    Throttled: ("SubscriptionRequestsThrottled", "TooManyRequests"),
    NotReady: (_IN_PROGRESS, "ReferencedResourceNotProvisioned", _RETRYABLE),
    OutcomeUnknown: (
        *_VM_EXISTS,
        "GatewayTimeout",
        "InUseNetworkSecurityGroupCannotBeDeleted",
        *INTERNAL_FAILURES,
        "InternalServerError",
        "NicInUse",
        "NicReservedForAnotherVm",
        "OperationPreempted",
        "PublicIPAddressCannotBeDeleted",
        "ServerTimeout",
        "ServiceUnavailable",
    ),
    CredentialsRejected: (
        "AuthenticationFailed",
        "AuthorizationFailed",
        "ExpiredAuthenticationToken",
        "InvalidAuthenticationToken",
        "InvalidAuthenticationTokenTenant",
        "InvalidSubscriptionId",
        "InvalidSubscriptionRegistrationState",
        "LinkedAuthorizationFailed",
        "MissingRegistrationForLocation",
        "MissingSubscriptionRegistration",
        "NoRegisteredProviderFound",
        "SubscriptionNotFound",
    ),
    TokenConflict: ("PreconditionFailed",),
    NotFound: (GONE, "ResourceGroupNotFound", "NotFound"),
    InvalidSpec: (
        "BadRequest",
        "ConflictingUserInput",
        "DiskImageNotReady",
        "ImageNotFound",
        "InvalidParameter",
        "InvalidRequestContent",
        "InvalidRequestFormat",
        "InvalidResourceName",
        "InvalidResourceReference",
        "LinkedInvalidPropertyId",
        "MarketplacePurchaseEligibilityFailed",
        "PlatformImageNotFound",
        "PropertyChangeNotAllowed",
        "ResourceGroupBeingDeleted",
        "ResourcePurchaseValidationFailed",
        "ScopeLocked",
        "VMMarketplaceInvalidInput",
    ),
}

CODES: Mapping[str, type[ProviderError]] = {code: error for error, codes in _TABLE.items() for code in codes}
_BY_CODE = {code.lower(): error for code, error in CODES.items()}

_NOT_ALLOWED = "OperationNotAllowed"
"""The code of both "over your quota" and "not in this state". The message distinguishes them."""
_QUOTA = re.compile(r"LowPriorityCores|Family\s?Cores|Total Regional (Spot )?(v?CPUs|Cores)|\bquota\b", re.IGNORECASE)

_BY_MESSAGE: tuple[tuple[str, re.Pattern[str], type[ProviderError]], ...] = (
    ("BadRequest", re.compile("UseStandardSecurityType", re.IGNORECASE), NotPermitted),
    ("InvalidParameter", re.compile(r"VM size\b.*\bnot available in the current region", re.IGNORECASE), NotOffered),
)
"""Codes of many causes. The pattern matches the message of one cause that does not concern the request's form."""

_NEVER_SENT = (NewConnectionError, ConnectTimeoutError)
"""Name resolution or the TCP connection failed: no byte of the request has left."""
_FOREIGN = (core.AzureError, LookupError, TypeError, ValueError)
"""All that the SDK raises. The last three: the answer has another shape than its models say."""

_NO_GROUP = "ResourceGroupNotFound"
_UNREGISTERED = re.compile(
    r"The subscription is not registered to use namespace 'Microsoft\.(Compute|Network)'", re.IGNORECASE
)
"""The beginning of the message for a namespace that every VM needs. An image may need another one."""
_NOT_THE_IMAGE = frozenset({"AzureSpotFeatureNotEnabledForSubscription", "ResourceGroupBeingDeleted", "ScopeLocked"})
"""Refusals that no image can cause."""

_LONGEST_MESSAGE = 300

_RENEW = "renew the credentials that azure-identity finds (environment, workload or managed identity, az login)"
_GRANT = "grant the actions listed in docs/providers/azure.md to the identity that gpulease uses"
_ADVICE: Mapping[str, str] = {
    "AuthorizationFailed": _GRANT,
    "LinkedAuthorizationFailed": _GRANT,
    "InvalidAuthenticationTokenTenant": "set `tenant_id` of this account to the subscription's directory",
    "InvalidSubscriptionId": "check `subscription_id` of this account",
    "MissingSubscriptionRegistration": "register Microsoft.Compute and Microsoft.Network for this subscription",
    "ResourceGroupNotFound": "create the group of `resource_group` of this account",
    "SubscriptionNotRegistered": "register Microsoft.Compute and Microsoft.Network for this subscription",
    "VMStoppedToWarnSubscription": "Azure has stopped VMs to warn about the subscription: see its state in the portal",
    "ReadOnlyDisabledSubscription": "the subscription is disabled: see its state in the Azure portal",
    "SubscriptionNotFound": "check `subscription_id` and `tenant_id` of this account",
}


def kind_of(code: str, message: str) -> type[ProviderError]:
    """What an error means wherever it is written, in an answer or in an instance view."""
    if code == _NOT_ALLOWED:
        return ProviderQuotaExceeded if _QUOTA.search(message) else InvalidSpec
    for shared, message_of, kind in _BY_MESSAGE:
        if code == shared and message_of.search(message):
            return kind
    return _BY_CODE.get(code.lower(), OutcomeUnknown)


def translate(error: Exception, *, creating: bool = False) -> ProviderError:
    """The error of ours that says what to do about one of the SDK's. `creating`: it answers a PUT that makes a VM."""
    if isinstance(error, core.HttpResponseError) and error.status_code is not None:
        return _answered(error, error.status_code, creating=creating)
    if isinstance(error, core.ClientAuthenticationError):
        return CredentialsRejected(f"{_short(_first_line(error))}; {_RENEW}", code=type(error).__name__)
    if isinstance(error, core.ServiceRequestError) and _never_sent(error):
        return Unreachable(_short(_first_line(error)), code=type(error).__name__)
    answered = not isinstance(error, (core.ServiceRequestError, core.ServiceResponseError))
    return OutcomeUnknown(_short(_first_line(error)), code=type(error).__name__, answered=answered)


def _never_sent(error: core.AzureError) -> bool:
    """Whether the failure below is one of connecting: the SDK's class says the same of a broken TLS stream."""
    cause = error.inner_exception
    while cause is not None:
        if isinstance(cause, _NEVER_SENT):
            return True
        inner = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        cause = cause.reason if isinstance(cause, MaxRetryError) else inner
    return False


def _answered(error: core.HttpResponseError, status: int, *, creating: bool) -> ProviderError:
    code = _code(error.error) or f"HTTP{status}"
    text = str(error.error.message) if error.error is not None else str(error.reason)
    kind = _kind(status, code, text, creating=creating)
    message = f"{code}: {_short(text)}"
    if issubclass(kind, Throttled | NotReady):
        return kind(message, code=code, retry_after=_retry_after(error))
    if code == "MissingSubscriptionRegistration" and _UNREGISTERED.match(text):
        kind = AccountBlocked
    if issubclass(kind, CredentialsRejected | AccountBlocked):
        message = f"{message}; {_ADVICE.get(code, _RENEW)}"
    translated_error = kind(message, code=code)
    if isinstance(translated_error, Refused):
        translated_error.may_concern_image &= code not in _NOT_THE_IMAGE
    return translated_error


def _code(error: core.ODataV4Format | None) -> str:
    """The code of an error. For an error whose code only says that a repeat may succeed: the code in its details."""
    if error is None or not error.code:
        return ""
    details = [detail.code for detail in error.details or () if detail.code]
    return str(details[0] if error.code == _RETRYABLE and details else error.code)


def _kind(status: int, code: str, message: str, *, creating: bool) -> type[ProviderError]:
    """The status decides where Azure's codes differ from service to service, or where there is none."""
    kind = kind_of(code, message)
    if kind is NotReady:
        certain = not creating or (code != _IN_PROGRESS and 400 <= status < 500)
        return NotReady if certain else OutcomeUnknown
    if status == 429:
        return Throttled
    if kind is not OutcomeUnknown or code.lower() in _BY_CODE:
        return kind
    if status == 401:
        return CredentialsRejected
    if not creating:
        return OutcomeUnknown
    return TokenConflict if status in {409, 412} else unlisted(status)


def _retry_after(error: core.HttpResponseError) -> float | None:
    """Seconds; the header's other form, a date, is not used by Azure."""
    headers: Mapping[str, str] = getattr(error.response, "headers", None) or {}
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


@contextmanager
def translated() -> Iterator[None]:
    """Lets only `ProviderError`s out of what is called inside."""
    try:
        yield
    except _FOREIGN as error:
        raise translate(error) from None


@contextmanager
def creating(group: str) -> Iterator[None]:
    """As `translated`, for the PUT that makes a VM: what Azure does not find is something that the VM refers to.

    Without `group`, the account's own resource group, nothing can be created. Another group may be an image's.
    """
    try:
        yield
    except _FOREIGN as foreign:
        error = translate(foreign, creating=True)
        if not isinstance(error, NotFound):
            raise error from None
        if error.message.lower().startswith(f"{_NO_GROUP}: resource group '{group}' could not be found".lower()):
            raise AccountBlocked(f"{error.message}; {_ADVICE[_NO_GROUP]}", code=error.code) from None
        raise InvalidSpec(error.message, code=error.code) from None
