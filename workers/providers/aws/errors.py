"""What EC2, STS, SSM and Service Quotas answer when they refuse, and what the caller must do then.

`CODES` is the whole table. A code that is not in it is an unknown outcome: never "no capacity", never "gone".
Codes: EC2 API reference, "Error codes for the Amazon EC2 API"; "Common errors" of STS, SSM and Service Quotas.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from workers.providers.errors import (
    CredentialsRejected,
    InsufficientCapacity,
    InvalidSpec,
    NotFound,
    NotOffered,
    OutcomeUnknown,
    PriceTooLow,
    ProviderError,
    ProviderQuotaExceeded,
    Throttled,
    TokenConflict,
    Unreachable,
)

NOT_ALLOWED = "UnauthorizedOperation"
"""EC2 knows the caller and does not allow this: rights may differ from resource to resource."""

_TABLE: Mapping[type[ProviderError], tuple[str, ...]] = {
    InsufficientCapacity: (
        "InsufficientInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientHostCapacity",
        "InsufficientCapacityOnHost",
        "InsufficientReservedInstanceCapacity",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientAddressCapacity",
        "InsufficientVolumeCapacity",
        "ReservationCapacityExceeded",
        "UnfulfillableCapacity",
        "Server.InsufficientInstanceCapacity",
    ),
    NotOffered: ("Unsupported", "VolumeTypeNotAvailableInZone"),
    ProviderQuotaExceeded: (
        "VcpuLimitExceeded",
        "MaxSpotInstanceCountExceeded",
        "InstanceLimitExceeded",
        "VolumeLimitExceeded",
        "AddressLimitExceeded",
        "NetworkInterfaceLimitExceeded",
        "ResourceLimitExceeded",
        "SecurityGroupLimitExceeded",
    ),
    Throttled: (
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "EC2ThrottledException",
    ),
    OutcomeUnknown: (
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServiceError",
        "ServiceException",
        "ServiceUnavailable",
        "Unavailable",
        "ServerInternal",
    ),
    CredentialsRejected: (
        "AuthFailure",
        NOT_ALLOWED,
        "AccessDenied",
        "AccessDeniedException",
        "NotAuthorized",
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "OptInRequired",
        "PendingVerification",
        "Blocked",
        "RegionDisabledException",
    ),
    PriceTooLow: ("SpotMaxPriceTooLow",),
    TokenConflict: (
        "IdempotentParameterMismatch",
        "IdempotentInstanceTerminated",
        "InvalidGroup.Duplicate",
        "InvalidPermission.Duplicate",
    ),
    NotFound: (
        "InvalidInstanceID.NotFound",
        "InvalidInstanceID.Malformed",
        "InvalidVolume.NotFound",
        "InvalidNetworkInterfaceID.NotFound",
        "InvalidAllocationID.NotFound",
        "InvalidSpotInstanceRequestID.NotFound",
        "ParameterNotFound",
        "NoSuchResourceException",
    ),
    InvalidSpec: (
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidParameter",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Malformed",
        "InvalidAMIID.Unavailable",
        "InvalidUserData.Malformed",
        "InvalidBlockDeviceMapping",
        "InvalidSnapshot.NotFound",
        "InvalidSubnetID.NotFound",
        "InvalidSubnet",
        "InvalidGroup.NotFound",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSecurity.RequestHasExpired",
        "InvalidZone.NotFound",
        "InvalidVpcID.NotFound",
        "InvalidPermission.Malformed",
        "RulesPerSecurityGroupLimitExceeded",
        "SecurityGroupsPerInstanceLimitExceeded",
        "SecurityGroupsPerInterfaceLimitExceeded",
        "IncorrectState",
        "IncorrectInstanceState",
        "InvalidNetworkInterface.NotFound",
        "InvalidTagKey.Malformed",
        "InvalidSpotInstanceRequest",
        "InvalidRequest",
        "InvalidAction",
        "MissingParameter",
        "MissingInput",
        "OperationNotPermitted",
        "TagLimitExceeded",
        "UnknownParameter",
        "UnknownVolumeType.Unsupported",
        "UnsupportedOperation",
        "ValidationError",
        "ValidationException",
        "VPCIdNotSpecified",
        "DefaultVpcDoesNotExist",
    ),
}

CODES: Mapping[str, type[ProviderError]] = {code: error for error, codes in _TABLE.items() for code in codes}

_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.ProfileNotFound,
    boto.ConfigParseError,
    boto.ConfigNotFound,
    boto.InvalidConfigError,
    boto.NoAuthTokenError,
    boto.TokenRetrievalError,
    boto.UnknownTokenProviderError,
    boto.UnknownCredentialError,
    boto.SSOError,
    boto.LoginError,
    boto.MetadataRetrievalError,
    boto.RefreshWithMFAUnsupportedError,
)
_NEVER_SENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError)
"""Name resolution or the TCP connection failed: no byte of the request has left."""

_BAD_CALL = (boto.ParamValidationError, boto.ValidationError, boto.NoRegionError, boto.EndpointProviderError)
_FOREIGN = (boto.ClientError, boto.BotoCoreError, ResponseParserError, RuntimeError, LookupError, ValueError)
"""All that botocore raises. RuntimeError: renewed credentials had expired already. LookupError and ValueError: the
answer has another shape than the service model says."""

_LONGEST_MESSAGE = 300

_RENEW = "renew the credentials that boto3 finds (environment, profile, role) and check the clock of this host"
_GRANT = "grant the actions listed in docs/providers/aws.md to the identity that gpulease uses"
_ADVICE: Mapping[str, str] = {
    NOT_ALLOWED: _GRANT,
    "AccessDenied": _GRANT,
    "AccessDeniedException": _GRANT,
    "NotAuthorized": _GRANT,
    "OptInRequired": "enable the region or service for this AWS account",
    "RegionDisabledException": "enable STS in this region for this AWS account",
    "PendingVerification": "wait for AWS to verify the account, or open a support case",
    "Blocked": "the AWS account is blocked: open a support case",
}


def translate(error: Exception) -> ProviderError:
    """The error of ours that says what to do about one of botocore's."""
    if isinstance(error, boto.ClientError):
        return _answered(error)
    if isinstance(error, (*_NO_CREDENTIALS, RuntimeError)):
        return CredentialsRejected(f"{_short(str(error))}; {_RENEW}", code=type(error).__name__)
    if isinstance(error, _NEVER_SENT):
        return Unreachable(_short(str(error)), code=type(error).__name__)
    if isinstance(error, _BAD_CALL):
        # botocore's text quotes the values, the start-up script among them
        return InvalidSpec("the parameters do not fit the AWS API", code=type(error).__name__)
    answered = not isinstance(error, (boto.HTTPClientError, boto.ConnectionError))
    return OutcomeUnknown(_short(str(error)), code=type(error).__name__, answered=answered)


def _answered(error: boto.ClientError) -> ProviderError:
    answer: Mapping[str, Any] = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    kind = _kind(error.operation_name, code, _status(answer))
    message = f"{code}: {_short(str(answer.get('Error', {}).get('Message', '')))}"
    if kind is CredentialsRejected:
        return CredentialsRejected(f"{error.operation_name}: {message}; {_ADVICE.get(code, _RENEW)}", code=code)
    if kind is Throttled:
        return Throttled(message, code=code, retry_after=_retry_after(answer))
    return kind(message, code=code)


def _kind(operation: str, code: str, status: int) -> type[ProviderError]:
    kind = CODES.get(code, OutcomeUnknown)
    if operation == "AssumeRole" and 400 <= status < 500 and kind is not Throttled:
        return CredentialsRejected
    return kind


def _status(answer: Mapping[str, Any]) -> int:
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _retry_after(answer: Mapping[str, Any]) -> float | None:
    """Seconds; the header's other form, a date, is not used by AWS."""
    text = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("retry-after", "")
    return float(text) if text.isdecimal() else None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


@contextmanager
def translated() -> Iterator[None]:
    """Lets only `ProviderError`s out of what is called inside."""
    try:
        yield
    except _FOREIGN as error:
        raise translate(error) from None
