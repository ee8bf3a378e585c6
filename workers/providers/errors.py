"""Errors of providers, named for what the caller must do."""

from collections.abc import Mapping

from app.domain.error_kinds import ErrorKind


class ProviderError(Exception):
    """Base class. `code` is the provider's own error code. `message` is for a person and contains no secret.

    `answered`: whether the provider itself answered. False: the call may have timed out or lost its connection.
    """

    answered = True

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    @property
    def kind(self) -> ErrorKind:
        """The value of an attempt's `error.class`."""
        return ErrorKind(type(self).__name__)


class Refused(ProviderError):
    """The VM was definitely not created. The attempt ends, and the worker tries the next candidate."""

    may_concern_image = False
    """Whether the image may be the cause. Then a refusal of a named image sets that image aside, and no offering."""


class InsufficientCapacity(Refused):
    """The offering has no capacity now. The offering cools off for minutes."""


class NetworkFull(InsufficientCapacity):
    """The network of this attempt has no free address, and the adapter knows another one for the next attempt.

    The offering does not cool off. The same pass tries it once more.
    """


class ProviderQuotaExceeded(Refused):
    """The account's quota at the provider is used up. The account's region and family cool off."""


class NotOffered(Refused):
    """The provider does not offer this type there (wrong zone, unsupported market).

    The offering cools off for an hour.
    """


class InvalidSpec(Refused):
    """The provider rejects the parameters. A retry elsewhere may succeed; a retry here cannot."""

    may_concern_image = True


class ImageMissing(InvalidSpec):
    """No driver-ready image is found, or the pinned image does not exist. No VM can be launched there."""


class PriceTooLow(Refused):
    """The offered price is below the current spot price."""


class CredentialsRejected(Refused):
    """The provider does not accept the credentials for this call; nothing was done.

    Clouds use the same codes for one forbidden thing and for wrong credentials. The worker requests the account's
    identity to distinguish the cases: see `Accounts.verdict`.
    """

    may_concern_image = True


class NotPermitted(Refused):
    """The account works, but may not do this one thing: cool off the offering, or skip the region in a job."""

    may_concern_image = True


class AccountBlocked(NotPermitted):
    """The provider lets this account create no VM at present, whatever the request contains. Other calls may work.

    The account is set aside in all its regions. An adapter raises it only for codes that no request of a tenant can
    cause.
    """

    may_concern_image = False


class RegionBlocked(AccountBlocked):
    """As AccountBlocked, for one region of the account."""


class Throttled(ProviderError):
    """Not done; retry later. Throttling slows the account down and never fails a lease.

    `retry_after`: seconds, None if the provider did not return a value.
    """

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class NotReady(ProviderError):
    """Not done: something that the call needs is still changing. Retry this call soon.

    Other calls of the account do not wait. `retry_after`: as of Throttled.
    """

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Unreachable(Throttled):
    """No connection could be made, so nothing was sent. Retry later, as after any other Throttled."""

    answered = False


class SendExpired(ProviderError):
    """The send window of this create call closed before the call was sent. Nothing was sent. See `send_window`."""


class OutcomeUnknown(ProviderError):
    """The call may or may not have taken effect (timeout, lost connection, 5xx, unknown code).

    Only the same call may follow.
    """

    def __init__(self, message: str, *, code: str | None = None, answered: bool = True) -> None:
        super().__init__(message, code=code)
        self.answered = answered


class NotFound(ProviderError):
    """The provider does not know this id. An unknown id in the parameters of a create call is `InvalidSpec` instead."""


class TokenConflict(ProviderError):
    """A resource with this token or name already exists. The caller reads it, compares the tags and adopts it."""


_REFUSING_STATUSES: Mapping[int, type[Refused]] = {400: InvalidSpec, 403: NotPermitted, 404: InvalidSpec}


def unlisted(status: int) -> type[ProviderError]:
    """The class for an unlisted code in the response to a create call, by HTTP status.

    A provider that rejects the request has created nothing. After 408, 409 and 5xx, the outcome is unknown.
    """
    return _REFUSING_STATUSES.get(status, OutcomeUnknown)
