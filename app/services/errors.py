"""Every refusal of the API, one class per code. The first line of a docstring is the public title.

`code` and `status` are contract: once set they are set. `advice` is what a caller should do; `docs/errors.md` is made
from this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field. `pointer` is a JSON pointer into the body (`/gpu/count`), or `#/query/limit`, `#/header/…`."""

    pointer: str
    detail: str


class ServiceError(Exception):
    """Base of all refusals: `detail` is for a person, `extra` are further members of the answer."""

    code: ClassVar[str]
    status: ClassVar[int]
    retryable: bool = False
    advice: ClassVar[str]

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        extra: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(detail or self.title())
        self.detail = detail or self.title()
        self.errors = tuple(errors)
        self.extra = extra or {}
        self.headers = headers or {}
        if retryable is not None:
            self.retryable = retryable

    @classmethod
    def title(cls) -> str:
        """One line for people, the same for every error of this code."""
        return (cls.__doc__ or "").partition("\n")[0].rstrip(".")


class MalformedBody(ServiceError):
    """The body is not valid JSON."""

    code, status = "malformed_body", 400
    advice = "Send one JSON document, UTF-8, without NaN or infinity."


class Unauthenticated(ServiceError):
    """A valid API key is required."""

    code, status = "unauthenticated", 401
    advice = "Send `Authorization: Bearer <key>`. A revoked, expired or mistyped key gets the same answer."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": "Bearer"})


class InvalidToken(ServiceError):
    """The one-time token is not valid."""

    code, status = "invalid_token", 401
    advice = "A token works once, and only while its VM runs. An unknown, used or late one gets the same answer."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": "Bearer"})


class Forbidden(ServiceError):
    """The key's role does not allow this."""

    code, status = "forbidden", 403
    advice = "Use a key of the role that `detail` names."


class TenantSuspended(ServiceError):
    """The tenant is suspended."""

    code, status = "tenant_suspended", 403
    advice = "Nothing can be started or extended; ask the operator."


class ResourceNotFound(ServiceError):
    """There is no such resource."""

    code, status = "not_found", 404
    advice = "Check the id. What belongs to another tenant answers the same."


class MethodNotAllowed(ServiceError):
    """This path does not know the method."""

    code, status = "method_not_allowed", 405
    advice = "See the `Allow` header."


class NameTaken(ServiceError):
    """The name is in use."""

    code, status = "name_taken", 409
    advice = "Choose another name."


class QuotaExceeded(ServiceError):
    """The quota leaves no room for this request."""

    code, status = "quota_exceeded", 409
    retryable = True
    advice = "`resource`, `limit`, `used` and `asked` tell what is short. Release leases or ask for more."


class NoOffering(ServiceError):
    """No offering fits the request."""

    code, status = "no_offering", 409
    advice = (
        "`excluded` tells why each offering was left out. Relax the request; `retryable` says that an account was only "
        "set aside for now."
    )


class LeaseEnding(ServiceError):
    """The lease is ending or has ended."""

    code, status = "lease_ending", 409
    advice = "Create another lease."


class LeaseNotActive(ServiceError):
    """The lease is not active yet."""

    code, status = "lease_not_active", 409
    retryable = True
    advice = "Wait until its `state` is `active`."


class NotExtendable(ServiceError):
    """The cloud ends this lease's VM at a fixed time, so the lease cannot be extended."""

    code, status = "not_extendable", 409
    advice = "Create another lease before this one ends; `placement.extendable` tells such leases."


class TermExceeded(ServiceError):
    """The tenant's longest total term does not allow this."""

    code, status = "term_exceeded", 409
    advice = "Ask for less; `detail` names the latest possible end."


class IdempotencyInFlight(ServiceError):
    """A request with this Idempotency-Key is being worked on."""

    code, status = "idempotency_in_flight", 409
    retryable = True
    advice = "Repeat it after a moment, with the same key."


class Conflict(ServiceError):
    """The resource's present state does not allow this."""

    code, status = "conflict", 409
    advice = "Read the resource again; `detail` says what is in the way."


class CursorExpired(ServiceError):
    """Events after this cursor are no longer kept."""

    code, status = "cursor_expired", 410
    advice = "Start again without `after` and re-read the resources."


class VersionConflict(ServiceError):
    """The resource has changed meanwhile."""

    code, status = "version_conflict", 412
    advice = "Read it again and repeat the change with the new ETag."


class BodyTooLarge(ServiceError):
    """The request body is too large."""

    code, status = "body_too_large", 413
    advice = "Send less; `detail` names the limit."


class UnsupportedMediaType(ServiceError):
    """The request body must be application/json."""

    code, status = "unsupported_media_type", 415
    advice = "Send `Content-Type: application/json`."


class InvalidRequest(ServiceError):
    """The request is not valid."""

    code, status = "invalid_request", 422
    advice = "`errors` points at each wrong field."


class IdempotencyMismatch(ServiceError):
    """This Idempotency-Key was used with another body."""

    code, status = "idempotency_mismatch", 422
    advice = "Use a new key for a new request."


class RateLimited(ServiceError):
    """Too many requests."""

    code, status = "rate_limited", 429
    retryable = True
    advice = "Wait for `Retry-After` seconds."


class TooManyFailedLogins(ServiceError):
    """Too many failed logins from this address."""

    code, status = "too_many_failed_logins", 429
    retryable = True
    advice = "Wait for `Retry-After` seconds and check the key."


class BadHttpRequest(ServiceError):
    """The request is not acceptable HTTP."""

    code, status = "bad_request", 400
    advice = "`detail` says what is wrong."


class InternalError(ServiceError):
    """Something went wrong on our side."""

    code, status = "internal_error", 500
    retryable = True
    advice = "Repeat it with the same Idempotency-Key; report `request_id` when it stays."


class DatabaseDown(ServiceError):
    """The service cannot reach its database."""

    code, status = "database_unavailable", 503
    retryable = True
    advice = "Repeat it, with the same Idempotency-Key, after `Retry-After` seconds."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


class TooManyStreams(ServiceError):
    """Too many open streams."""

    code, status = "too_many_streams", 503
    retryable = True
    advice = "Close streams that nobody reads, or wait for `Retry-After` seconds; another API process may have room."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"Retry-After": "5"})


def every_error() -> list[type[ServiceError]]:
    """All public errors, by status and code."""
    return sorted(ServiceError.__subclasses__(), key=lambda error: (error.status, error.code))
