"""What tenants read of a provider's answer: our own sentence for it, never the provider's words.

Those words name roles, accounts, networks and other resources of the installation. They are kept for its operators.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.domain.boot_sizes import TOO_LONG
from app.domain.error_kinds import ErrorKind

_BY_CLASS: Mapping[str, str] = MappingProxyType(
    {
        ErrorKind.REFUSED: "the provider refused",
        ErrorKind.INSUFFICIENT_CAPACITY: "the provider has no capacity for this instance type there at present",
        ErrorKind.NETWORK_FULL: "the installation's network there has no free address",
        ErrorKind.PROVIDER_QUOTA_EXCEEDED: "the installation's own quota at the provider is used up",
        ErrorKind.NOT_OFFERED: "the provider does not offer this instance type there",
        ErrorKind.INVALID_SPEC: "the provider did not accept the request",
        ErrorKind.IMAGE_MISSING: "no such image is found there",
        ErrorKind.PRICE_TOO_LOW: "the spot price is above the price that was offered",
        ErrorKind.NOT_PERMITTED: "the provider does not permit this to the installation's account",
        ErrorKind.ACCOUNT_BLOCKED: "the provider lets the installation's account create no VM at present",
        ErrorKind.REGION_BLOCKED: "the provider lets the installation's account create no VM in this region at present",
        ErrorKind.CREDENTIALS_REJECTED: "the provider refuses the installation's credentials",
        ErrorKind.IDENTITY_CHANGED: "the provider refuses the installation's credentials",
        ErrorKind.THROTTLED: "the provider takes no more requests for a moment",
        ErrorKind.NOT_READY: "something that the VM needs is not ready yet at the provider",
        ErrorKind.UNREACHABLE: "no connection to the provider could be made",
        ErrorKind.OUTCOME_UNKNOWN: "the provider gave no clear answer",
        ErrorKind.SEND_EXPIRED: "the create call was not sent in time",
        ErrorKind.NOT_FOUND: "the provider does not know the VM",
        ErrorKind.TOKEN_CONFLICT: "something exists already under this attempt's token",
        ErrorKind.NEVER_SEEN: "the create call was never answered, and it has left no VM",
        ErrorKind.LOST: "the database lost this attempt; a later one was adopted",
        ErrorKind.VM_ENDED: "the VM ended",
        ErrorKind.LAUNCH_TIMEOUT: "the VM did not start in time",
        ErrorKind.GPU_CHECK_FAILED: "the GPUs of the VM failed their check",
    }
)
"""By the class of an attempt's error."""

_BY_CODE: Mapping[str, str] = MappingProxyType(
    {
        "Client.InstanceInitiatedShutdown": "it was shut down from inside",
        "Client.UserInitiatedShutdown": "it was shut down through the provider's own API",
        "Client.UserInitiatedHibernate": "it was hibernated through the provider's own API",
        "Server.SpotInstanceTermination": "the provider took the spot VM back",
        "Server.SpotInstanceShutdown": "the provider took the spot VM back",
        "Server.InternalError": "an error at the provider ended it",
        TOO_LONG: "the start-up script and the SSH keys are too long for a launch there",
    }
)
"""By the provider's code for the end of a VM, or by gpulease's own."""

_UNEXPLAINED = "operators of the installation see what the provider answered"

_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,79}")
_IDENTIFIER = re.compile(r"\d{6,}|[0-9a-f]{8}-|[0-9a-f]{17}|^(arn|projects|subscriptions)\b", re.IGNORECASE)


def public_code(code: str | None) -> str | None:
    """A provider's code, None for anything that does not look like one."""
    if code is None or _CODE.fullmatch(code) is None or _IDENTIFIER.search(code) is not None:
        return None
    return code


def public_message(kind: str | None, code: str | None) -> str:
    """Our sentence for an error of this class and provider's code."""
    return _BY_CODE.get(code or "") or _BY_CLASS.get(kind or "", _UNEXPLAINED)


def public_error(error: Mapping[str, Any]) -> dict[str, str | None]:
    """{class, code, message} of a stored error, as tenants see it."""
    kind, code = error.get("class"), error.get("code")
    return {"class": kind, "code": public_code(code), "message": public_message(kind, code)}


def public_answer(error: Mapping[str, Any]) -> str:
    """`<code>: <our sentence>` of a stored error, for the middle of another sentence."""
    public = public_error(error)
    return f"{public['code'] or public['class']}: {public['message']}"


def why_vm_ended(reason: Mapping[str, Any]) -> str:
    """Why the provider says that a VM ended. `reason`: as stored, {code, message}."""
    code = public_code(reason.get("code"))
    sentence = _BY_CODE.get(code or "")
    if sentence is not None:
        return f"{sentence} ({code})"
    return code or "no reason given"


def provider_words(error: Mapping[str, Any]) -> str | None:
    """The provider's own words of a stored error or reason, for operators; None without any."""
    code, message = error.get("code"), error.get("message")
    if code and message and message.startswith(code):
        return str(message)
    return ": ".join(str(part) for part in (code, message) if part) or None
