"""What EC2, STS, SSM and Service Quotas answer when they refuse, and what the caller must do then.

`error_codes` has the codes. For RunInstances, the HTTP status decides about an unlisted code. For other calls, an
unlisted code is an unknown outcome: never "no capacity", never "gone".
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from workers.providers.aws.error_codes import CODES, NOT_ALLOWED
from workers.providers.errors import (
    AccountBlocked,
    CredentialsRejected,
    InvalidSpec,
    NotFound,
    NotOffered,
    NotReady,
    OutcomeUnknown,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    unlisted,
)

_CREATE = "RunInstances"

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
_STATE_CODE = re.compile(r"(Client|Server)\.\w+(\.\w+)*")
_STATE_CODES: Mapping[str, type[Refused]] = {"Client.InternalError": InvalidSpec, "Server.InternalError": Refused}
"""Codes that have a meaning of their own in a state reason."""

_NO_ZONE = ("invalid availability zone", "not supported in the availability zone", "not supported in your requested")
"""What the messages of `InvalidParameterValue` and `UnsupportedOperation` say where a zone lacks the type, or does not exist."""
_OF_ZONE = frozenset({"InvalidParameterValue", "UnsupportedOperation"})

_RENEW = "renew the credentials that boto3 finds (environment, profile, role) and check the clock of this host"
_GRANT = "grant the actions listed in docs/providers/aws.md to the identity that gpulease uses"
_FREE_PLAN = "The specified instance type is not eligible for Free Tier"
"""The beginning of the message for an account that may start only the types of the free plan. None of them has a GPU.

Only the beginning counts, since messages with this code may quote values of the request.
"""
_RESOURCE = re.compile(r"on resource: arn:[\w-]+:ec2:[\w-]*:\w*:([\w-]+)/")
"""The kind of resource for which EC2 says that a right is missing, as `instance` or `image`."""
_NOT_THE_IMAGE = frozenset(
    {
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "DefaultVpcDoesNotExist",
        "InvalidGroup.NotFound",
        "InvalidPlacementGroup.InUse",
        "InvalidPlacementGroup.Unknown",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSubnet",
        "InvalidSubnetID.NotFound",
        "InvalidVpcID.NotFound",
        "InvalidZone.NotFound",
        "RulesPerSecurityGroupLimitExceeded",
        "SecurityGroupsPerInstanceLimitExceeded",
        "SecurityGroupsPerInterfaceLimitExceeded",
        "VPCIdNotSpecified",
    }
)
"""Refusals of the account's network, of the market or of the place. No image can cause them."""
_ADVICE: Mapping[str, str] = {
    "InvalidParameterCombination": "leave the free plan of the AWS account",
    **dict.fromkeys((NOT_ALLOWED, "AccessDenied", "AccessDeniedException", "NotAuthorized"), _GRANT),
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
    text = str(answer.get("Error", {}).get("Message", ""))
    kind = _kind(error.operation_name, code, _status(answer))
    if code in _OF_ZONE and any(hint in text.lower() for hint in _NO_ZONE):
        kind = NotOffered
    if code == "InvalidParameterCombination" and text.startswith(_FREE_PLAN):
        kind = AccountBlocked
    message = f"{code}: {_short(text)}"
    if issubclass(kind, Throttled | NotReady):
        return kind(message, code=code, retry_after=_retry_after(answer))
    if kind is CredentialsRejected:
        message = f"{error.operation_name}: {message}; {_ADVICE.get(code, _RENEW)}"
    elif issubclass(kind, AccountBlocked):
        message = f"{message}; {_ADVICE[code]}"
    translated_error = kind(message, code=code)
    if isinstance(translated_error, Refused):
        translated_error.may_concern_image &= not _excludes_image(code, text)
    return translated_error


def _excludes_image(code: str, message: str) -> bool:
    """Whether a refusal concerns something else than the image: its code says so, or it names another resource."""
    named = _RESOURCE.search(message)
    return code in _NOT_THE_IMAGE or (named is not None and named[1] not in {"image", "snapshot"})


def _kind(operation: str, code: str, status: int) -> type[ProviderError]:
    kind = CODES.get(code)
    if operation == "AssumeRole" and 400 <= status < 500 and kind is not Throttled:
        return CredentialsRejected
    if kind is not None:
        return kind
    return unlisted(status) if operation == _CREATE else OutcomeUnknown


def refusal_of(code: str | None, message: str | None = None) -> type[Refused] | None:
    """The refusal in the state reason of an instance. EC2 puts `Client.` or `Server.` before the code of the error.

    The message may begin with another such code, which then says more than `code`. `Client.InternalError` means a volume
    that could not be encrypted: the KMS key is missing or may not be used. `Server.InternalError` is a fault of EC2.
    Source: EC2 user guide, "Instance terminates immediately"; karpenter-provider-aws issue 1407.
    """
    in_message = _STATE_CODE.match(message or "")
    codes = [in_message[0] if in_message else None, code]
    return next((kind for kind in map(_state_refusal, codes) if kind not in {None, Refused}), _state_refusal(code))


def _state_refusal(code: str | None) -> type[Refused] | None:
    if code in _STATE_CODES:
        return _STATE_CODES[code]
    kind = CODES.get(re.sub(r"^(Client|Server)\.", "", code or ""))
    return kind if kind is not None and issubclass(kind, Refused) else None


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


@contextmanager
def creating() -> Iterator[None]:
    """As `translated`, for RunInstances: an id that EC2 does not know is one of the parameters."""
    try:
        with translated():
            yield
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
