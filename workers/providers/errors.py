"""Errors of providers, named for what the caller must do."""

from app.domain.error_kinds import ErrorKind


class ProviderError(Exception):
    """Base. `code` is the provider's own word, kept raw; `message` is for a person and holds no secret.

    `answered`: the provider itself answered. False: the call may have timed out, or its connection was lost.
    """

    answered = True

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    @property
    def kind(self) -> ErrorKind:
        """What an attempt's `error.class` shows."""
        return ErrorKind(type(self).__name__)


class Refused(ProviderError):
    """Definitely not created. The attempt ends; the next candidate is tried."""


class InsufficientCapacity(Refused):
    """No capacity at this offering now: cool it off for minutes."""


class ProviderQuotaExceeded(Refused):
    """Our own quota at the provider is used up: cool off this account's region and family."""


class NotOffered(Refused):
    """This type is not offered there (wrong zone, unsupported market): cool off for an hour."""


class InvalidSpec(Refused):
    """The provider does not accept the parameters: trying the same again elsewhere may help, here it cannot."""


class ImageMissing(InvalidSpec):
    """No driver-ready image is found, or the pinned one does not exist: nothing can be launched there."""


class PriceTooLow(Refused):
    """The offered price is below the present spot price."""


class CredentialsRejected(Refused):
    """Credentials or rights fail: the whole account is set aside with this reason; nothing was done."""


class Throttled(ProviderError):
    """Not done, ask later: slows the account down, never fails a lease. `retry_after` in seconds, if told."""

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Unreachable(Throttled):
    """No connection could be made, so nothing was sent: not done, ask later. A Throttled with another name."""

    answered = False


class SendExpired(ProviderError):
    """The time for this create call was over before it left: nothing was sent. See `send_window`."""


class OutcomeUnknown(ProviderError):
    """May have been done or not (time-out, lost connection, 5xx, unknown code): only the same call may follow."""

    def __init__(self, message: str, *, code: str | None = None, answered: bool = True) -> None:
        super().__init__(message, code=code)
        self.answered = answered


class NotFound(ProviderError):
    """The provider does not know this id. For a create's parameters it is `InvalidSpec` instead."""


class TokenConflict(ProviderError):
    """Something exists already under this token or name: read it back, compare the tags, adopt it."""
