"""Every error of the API, one class per code. The first line of a docstring is the public title.

`code` and `status` are part of the API contract and never change. `advice` states what a caller should do.
`docs/errors.md` is generated from this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid field. `pointer`: `#/body/gpu/count`, `#/query/limit`, `#/path/lease_id` or `#/header/If-Match`.

    `detail` is the rest of a sentence that begins with the field's name.
    """

    pointer: str
    detail: str

    @property
    def name(self) -> str:
        """The field for people: `gpu.count`, `query parameter limit`, `header If-Match`."""
        where, *path = self.pointer.removeprefix("#/").split("/")
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path]
        if where == "body":
            return ".".join(parts) or "the body"
        return " ".join([_PARTS.get(where, where), "/".join(parts)])


_PARTS = {"query": "query parameter", "path": "path parameter"}


def summarize(errors: Sequence[FieldError]) -> str:
    """One sentence: the first field error, and the number of the others."""
    first, *others = errors
    more = f" ({len(others)} more: see `errors`)" if others else ""
    return f"{first.name} {first.detail.rstrip('.')}{more}."


class ServiceError(Exception):
    """Base of all API errors. `detail` is a message for a person; `extra` holds further members of the response.

    Without a `detail`, the first of `errors` stands for it.
    """

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
        self.detail = detail or (summarize(errors) if errors else self.title())
        super().__init__(self.detail)
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
    advice = "Send one JSON document in UTF-8. `detail` gives line and column of the error."


class BadHeader(ServiceError):
    """A request header is not valid."""

    code, status = "bad_header", 400
    advice = "`errors` lists each invalid header. Correct the header or leave it out."


class Unauthenticated(ServiceError):
    """A valid API key is required."""

    code, status = "unauthenticated", 401
    advice = "Send `Authorization: Bearer <key>`. A revoked, expired or mistyped key returns the same error."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": "Bearer"})


class InvalidToken(ServiceError):
    """The VM's token is not valid."""

    code, status = "invalid_token", 401
    advice = "A token works only while its VM runs, and the token for host keys works once. An unknown, used or expired token returns the same error."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": "Bearer"})


class Forbidden(ServiceError):
    """The key's role does not allow this."""

    code, status = "forbidden", 403
    advice = "Use a key of the role that `detail` names."


class KeyHasBudget(ServiceError):
    """A key with a budget cannot raise costs that its budget does not count."""

    code, status = "key_has_budget", 403
    advice = (
        "Use the key that created the lease or the group, or a key without a budget. Leases that this key creates count in "
        "its own budget."
    )


class TenantSuspended(ServiceError):
    """The tenant is suspended."""

    code, status = "tenant_suspended", 403
    advice = (
        "The tenant gets no VM and no more time for one. It can only end or restrict what it has. Contact the operator."
    )


class ResourceNotFound(ServiceError):
    """The resource does not exist."""

    code, status = "not_found", 404
    advice = "Check the id. A resource of another tenant returns the same error."


class MethodNotAllowed(ServiceError):
    """Method not allowed."""

    code, status = "method_not_allowed", 405
    advice = "See the `Allow` header."


class NameTaken(ServiceError):
    """The name is in use."""

    code, status = "name_taken", 409
    advice = (
        "Choose another name. Names of live leases and of live groups are unique in a tenant: `lease_id` or `group_id` is "
        "the lease or the group that has the name."
    )


class VolumeInUse(ServiceError):
    """The volume is in use, or it is not available."""

    code, status = "volume_in_use", 409
    retryable = True
    advice = (
        "One lease at a time holds a volume. Release the lease `lease_id`. A volume that no lease holds must be in state "
        "`available`: `state` says where it is."
    )


class QuotaExceeded(ServiceError):
    """The request exceeds the quota."""

    code, status = "quota_exceeded", 409
    retryable = True
    advice = (
        "`resource`, `limit`, `used` and `asked` describe the exceeded limit. Release leases or request a higher quota."
    )


class BudgetExceeded(ServiceError):
    """The request exceeds a budget."""

    code, status = "budget_exceeded", 409
    retryable = True
    advice = (
        "`budget_id`, `budget`, `spent`, `committed` and `asked` describe the exceeded budget. Release leases, request a "
        "shorter or cheaper one, or wait until `resets_at`. Null: the budget does not reset."
    )


class NoOffering(ServiceError):
    """No offering matches the request."""

    code, status = "no_offering", 409
    advice = (
        "`excluded` counts the excluded offerings by reason, with the nearest offering of each. Relax the request. If "
        "`retryable` is true, the same request may succeed later."
    )


class QuoteExpired(ServiceError):
    """The quote has expired."""

    code, status = "quote_expired", 409
    advice = "Request another quote: a quote is valid for 15 minutes."


class LeaseEnding(ServiceError):
    """The lease is ending or has ended."""

    code, status = "lease_ending", 409
    advice = "Create another lease."


class GroupEnding(ServiceError):
    """The group is ending or has ended."""

    code, status = "group_ending", 409
    advice = "Create another group."


class GroupNotFormed(ServiceError):
    """The group is not formed."""

    code, status = "group_not_formed", 409
    retryable = True
    advice = "Wait until the group has the state `active` or `degraded`. `format=json` shows the hosts known so far."


class LeaseNotActive(ServiceError):
    """The lease is not active yet."""

    code, status = "lease_not_active", 409
    retryable = True
    advice = "Wait until the lease has the state `active`."


class NotExtendable(ServiceError):
    """The cloud ends this lease's VM at a fixed time, so the lease cannot be extended."""

    code, status = "not_extendable", 409
    advice = "Create another lease before this one ends. `placement.extendable` is false for such leases."


class NotLater(ServiceError):
    """The requested expiry is not later than the present one. An extension never shortens a lease."""

    code, status = "not_later", 422
    advice = "Request a later `expires_at`, or extend by `extend_by_seconds`."


class TermExceeded(ServiceError):
    """The request exceeds the tenant's maximum term, from now or in total."""

    code, status = "term_exceeded", 422
    advice = "Request a shorter term. `max_ttl_seconds` or `latest_expires_at` gives the limit."


class UnknownGpuModel(ServiceError):
    """The installation has no such GPU model."""

    code, status = "unknown_gpu_model", 422
    advice = "Use one of `known`; `nearest` is the most similar one. `GET /v1/gpu-models` lists models and spellings."


class UnknownRegion(ServiceError):
    """The installation has no such region."""

    code, status = "unknown_region", 422
    advice = "Use one of `known`; `nearest` is the most similar one. `GET /v1/regions` lists them."


class UnknownInstanceType(ServiceError):
    """The installation has no such instance type."""

    code, status = "unknown_instance_type", 422
    advice = "Use `nearest`, or another type of `GET /v1/offerings`."


class PriceCapTooLow(ServiceError):
    """Every offering that fits costs more than `max_price_per_hour`."""

    code, status = "price_cap_too_low", 422
    advice = "Raise `max_price_per_hour` to at least `lowest_price_per_hour`, or relax the request."


class IdempotencyInFlight(ServiceError):
    """A request with this Idempotency-Key is still in progress."""

    code, status = "idempotency_in_flight", 409
    retryable = True
    advice = "Retry after a short delay with the same key."


class Conflict(ServiceError):
    """The resource's current state does not allow this."""

    code, status = "conflict", 409
    advice = "Read the resource again. `detail` describes the conflict."


class CursorExpired(ServiceError):
    """Events after this position are not available."""

    code, status = "cursor_expired", 410
    advice = "Start again without `after` and read the resources again."


class VersionConflict(ServiceError):
    """The resource has changed since it was read."""

    code, status = "version_conflict", 412
    advice = "Read the resource again and repeat the change with the new ETag."


class BodyTooLarge(ServiceError):
    """The request body is too large."""

    code, status = "body_too_large", 413
    advice = "Send a smaller body. `detail` gives the limit."


class UnsupportedMediaType(ServiceError):
    """The request body must be application/json."""

    code, status = "unsupported_media_type", 415
    advice = "Send `Content-Type: application/json`."


class InvalidRequest(ServiceError):
    """The request is not valid."""

    code, status = "invalid_request", 422
    advice = "`errors` lists each invalid field."


class IdempotencyMismatch(ServiceError):
    """This Idempotency-Key was used with a different body."""

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
    """The request is not valid HTTP."""

    code, status = "bad_request", 400
    advice = "`detail` describes the error."


class InternalError(ServiceError):
    """The service failed to process the request."""

    code, status = "internal_error", 500
    retryable = True
    advice = "Retry with the same Idempotency-Key. If the error persists, report `request_id`."


class DatabaseDown(ServiceError):
    """The service cannot reach its database."""

    code, status = "database_unavailable", 503
    retryable = True
    advice = "Retry after `Retry-After` seconds with the same Idempotency-Key."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


class TooManyStreams(ServiceError):
    """Too many open streams."""

    code, status = "too_many_streams", 503
    retryable = True
    advice = "Close unused streams, or wait for `Retry-After` seconds. Another API process may have capacity."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"Retry-After": "5"})


def every_error() -> list[type[ServiceError]]:
    """All public errors, sorted by status and code."""
    return sorted(ServiceError.__subclasses__(), key=lambda error: (error.status, error.code))
