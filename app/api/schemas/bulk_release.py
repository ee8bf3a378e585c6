"""The request and the response of a bulk release."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from app.api.schemas.base import Body, Text, View
from app.api.schemas.field_rules import exactly_one_of
from app.domain.ids import is_typeid
from app.domain.leases import LeaseState
from app.services.errors import FieldError, InvalidRequest
from app.services.leases.bulk_release import MOST, BulkReleaseResult, Selection

_SELECTORS = ("ids", "label", "all")
_LEASE_ID = "^lease_[0-7][0-9a-hjkmnp-tv-z]{25}$"


def _label(text: str) -> str:
    if ":" not in text:
        raise ValueError("must be key:value")
    return text


def _lease_id(text: str) -> str:
    if not is_typeid("lease", text):
        raise ValueError("must be the id of a lease")
    return text


class LeaseSelection(Body):
    """The leases to release. Set exactly one of `ids`, `label` and `all`."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("ids", "label", "all"))

    ids: Annotated[
        list[Annotated[str, Field(max_length=40, json_schema_extra={"pattern": _LEASE_ID}), AfterValidator(_lease_id)]]
        | None,
        Field(min_length=1, max_length=MOST, description="Ids of leases."),
    ] = None
    label: Annotated[
        list[Annotated[Text, Field(max_length=400, json_schema_extra={"pattern": ":"}), AfterValidator(_label)]] | None,
        Field(
            min_length=1,
            max_length=20,
            description="Labels as `key:value`. Selects the leases that have all of them and have not ended.",
            examples=[["team:vision"]],
        ),
    ] = None
    all: Annotated[bool, Field(description="Selects all leases of the tenant that have not ended.")] = False
    dry_run: Annotated[bool, Field(description="Return the leases without releasing them.")] = False
    tenant_id: Annotated[
        str | None,
        Field(
            max_length=40,
            description="Required for operators with `label` or `all`. Other keys must not name another tenant.",
        ),
    ] = None


class ReleasedLease(View):
    """A selected lease."""

    id: Annotated[str, Field(description="The lease's id.")]
    tenant_id: Annotated[str, Field(description="The lease's tenant.")]
    name: Annotated[str, Field(description="The lease's name.")]
    state: LeaseState
    released: Annotated[
        bool,
        Field(
            description="Whether this call releases the lease, or would do so without `dry_run`. False: the lease is "
            "ending or has ended."
        ),
    ]


class BulkRelease(View):
    """The selected leases."""

    dry_run: Annotated[bool, Field(description="Nothing was released.")]
    released: Annotated[int, Field(description="Leases that this call releases, or would release without `dry_run`.")]
    items: list[ReleasedLease]
    not_found: Annotated[list[str], Field(description="Those of `ids` that do not exist.")]
    more: Annotated[
        bool, Field(description=f"More leases match. One call takes at most {MOST}: repeat it for the others.")
    ]


def selection(body: LeaseSelection) -> Selection:
    """Converts the body to the service's request. Raises InvalidRequest unless exactly one selector is set."""
    chosen = [name for name in _SELECTORS if getattr(body, name)]
    if len(chosen) != 1:
        detail = "set exactly one of ids, label and all"
        raise InvalidRequest(errors=[FieldError(f"#/body/{name}", detail) for name in chosen or _SELECTORS])
    return Selection(
        ids=tuple(dict.fromkeys(body.ids or ())),
        labels=dict(label.split(":", 1) for label in body.label) if body.label else None,
        tenant_id=body.tenant_id,
        dry_run=body.dry_run,
    )


def bulk_release(result: BulkReleaseResult, *, dry_run: bool) -> BulkRelease:
    """The response."""
    items = [
        ReleasedLease(
            id=lease.id, tenant_id=lease.tenant_id, name=lease.name, state=lease.state, released=lease.released
        )
        for lease in result.leases
    ]
    released = sum(lease.released for lease in result.leases)
    return BulkRelease(
        dry_run=dry_run, released=released, items=items, not_found=list(result.not_found), more=result.more
    )
