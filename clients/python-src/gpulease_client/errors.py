"""Base classes of the errors. `gpulease_client.problems` has one class per error code of the API."""

from collections.abc import Mapping
from typing import Any

from gpulease_client.core.models import Group, Lease

_STANDARD = frozenset({"type", "title", "status", "detail", "instance", "code", "retryable", "errors", "request_id"})


class GpuleaseError(Exception):
    """Base class of every error of this package. An error survives pickle and copy with its attributes.

    Attributes:
        idempotency_key: key of a request that may have been carried out although it failed. Repeat the call with it, and
            it makes no second resource. None: the API did not carry the request out, or it has no key.
    """

    idempotency_key: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[GpuleaseError], args: tuple[Any, ...], attributes: dict[str, Any]) -> GpuleaseError:
    """The error that pickle or copy has taken apart. It needs no arguments of the class's own `__init__`."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidValueError(GpuleaseError, ValueError):
    """An id or name that cannot be a part of a path. Nothing was sent."""


class NotConfiguredError(GpuleaseError):
    """No address or no key of an API. The message lists the sources."""


class InvalidSignatureError(GpuleaseError):
    """A webhook message has no valid signature, or its timestamp is not recent."""


class UnreachableError(GpuleaseError):
    """The API sent no response, also after the retries. `__cause__` is the error of httpx."""


class UnexpectedResponseError(GpuleaseError):
    """The response does not come from the API, for example the page of a proxy. `status` may be a success."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"status {status} with a body that is not gpulease's: {body[:200]!r}")
        self.status = status
        self.body = body


class ApiError(GpuleaseError):
    """The API refused the request. `code` is stable; `detail` is for people.

    Attributes:
        retryable: the same request may succeed later.
        errors: `pointer` and `detail` of each invalid field.
        members: what this code adds, for example `resource` and `limit` of `quota_exceeded`.
        retry_after: seconds of the `Retry-After` header.
    """

    def __init__(self, problem: Mapping[str, Any], *, status: int, retry_after: float | None = None) -> None:
        self.problem: Mapping[str, Any] = problem
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.title = str(problem.get("title", ""))
        self.detail = str(problem.get("detail", ""))
        self.retryable = bool(problem.get("retryable"))
        self.errors: list[dict[str, Any]] = list(problem.get("errors") or [])
        self.request_id = str(problem.get("request_id", ""))
        self.members = {name: value for name, value in problem.items() if name not in _STANDARD}
        self.retry_after = retry_after
        super().__init__(f"{self.code}: {self.detail or self.title} (request {self.request_id})")


class LeaseEndedError(GpuleaseError):
    """The lease ended before it reached the state that the caller waits for."""

    def __init__(self, lease: Lease) -> None:
        reason = lease.reason.message if lease.reason else "no reason"
        super().__init__(f"lease {lease.id} is {_text(lease.state)}: {reason}")
        self.lease = lease


class WaitTimeoutError(GpuleaseError, TimeoutError):
    """The time of a wait is over. The lease still exists and may still be billed."""

    def __init__(self, lease: Lease, until: str) -> None:
        super().__init__(f"lease {lease.id} is {_text(lease.state)} and not yet {until}; it still exists")
        self.lease = lease


class GroupEndedError(GpuleaseError):
    """The group ended or ends before it reached the state that the caller waits for."""

    def __init__(self, group: Group) -> None:
        reason = group.reason.message if group.reason else "no reason"
        super().__init__(f"group {group.id} is {_text(group.state)}: {reason}")
        self.group = group


class GroupTimeoutError(GpuleaseError, TimeoutError):
    """The time of a wait is over. The group still exists and may still be billed."""

    def __init__(self, group: Group, until: str) -> None:
        super().__init__(f"group {group.id} is {_text(group.state)} and not yet {until}; it still exists")
        self.group = group


def _text(state: object) -> str:
    return str(getattr(state, "value", state))
