"""Errors that end a command early. Each error has an exit code and a message for people.

Every other module of the command line may import this one. It needs only the standard library.
"""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
"One parsed document of the API."

FAILED = 1
USAGE = 2
UNREACHABLE = 3
OUTPUT_LOST = 4
INTERRUPTED = 130
"""Exit codes: the API rejected the call or the lease failed, wrong usage or no credentials, API unreachable, the output
could not be written, Ctrl-C."""


_TOO_MANY, _SERVER_SIDE = 429, 500


_OWN_KEY = {"/v1/leases": "lease", "/v1/groups": "group"}
"Collections whose `create` command has the option --idempotency-key."


@dataclass(frozen=True)
class FailedCall:
    """A request without a usable answer, after its last try."""

    method: str
    path: str
    key: str | None
    "Its idempotency key."

    def line(self) -> str:
        """What may exist, and how to look for it or to repeat the command safely."""
        noun = _OWN_KEY.get(self.path)
        if noun and self.key:
            return (
                f"the {noun} may exist and may be billed: `gpulease {noun} list` shows it; --idempotency-key {self.key} "
                f"repeats the command without a second {noun}"
            )
        return f"the API may have carried out {self.method} {self.path}: look before you repeat the command"


class CliError(Exception):
    """Any error that is shown as a message, not as a traceback."""

    exit_code = FAILED
    passing = False
    "True when the same request may succeed soon, for example while the API restarts or is busy."
    retry_after = 0.0
    "Seconds that the API requests before a retry."
    unanswered: "FailedCall | None" = None
    "The change that may have been carried out although the command failed."

    def lines(self) -> list[str]:
        """The message, most important line first."""
        return [str(self)]


class NotConfiguredError(CliError):
    """The API address or key is missing or invalid. The message names the setting."""

    exit_code = USAGE


class InvalidValueError(CliError):
    """An id or name that cannot be a part of a path. Nothing was sent."""

    exit_code = USAGE


class DeclinedError(CliError):
    """A person answered no. Nothing was sent."""

    def __init__(self) -> None:
        super().__init__("declined; nothing was changed")


class AmbiguousError(CliError):
    """A name matches several resources. The message lists their ids."""


class UnreachableError(CliError):
    """No response arrived: the connection failed, broke, or timed out."""

    exit_code = UNREACHABLE
    passing = True

    def __init__(self, url: str, why: str, *, connected: bool = False) -> None:
        super().__init__(f"cannot reach the API at {url}: {why}")
        self.connected = connected
        "The request may have arrived. Only a repeatable call may be retried."

    def lines(self) -> list[str]:
        """One line with the address and the command that starts a stack."""
        return [f"{self}. Start a local stack with `gpulease up`, or set --url or GPULEASE_URL to a running API."]


class ApiError(CliError):
    """The API, or a proxy in front of it, returned an error."""

    def __init__(self, message: str, status: int, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.passing = status == _TOO_MANY or status >= _SERVER_SIDE


class UnexpectedAnswerError(ApiError):
    """A response that does not come from the API, for example the error page of a proxy."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} returned {status} with a body that is not gpulease's JSON", status)


class ProblemError(ApiError):
    """An `application/problem+json` response (RFC 9457)."""

    def __init__(self, document: Json, status: int, request_id: str | None, retry_after: float = 0.0) -> None:
        super().__init__(str(document.get("title") or "the API rejected the request"), status, retry_after)
        self.document = document
        self.request_id = request_id

    @property
    def code(self) -> str:
        """The error code, for example `quota_exceeded`. Empty without a code."""
        return str(self.document.get("code") or "")
