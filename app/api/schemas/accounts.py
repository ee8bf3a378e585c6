"""Models of cloud accounts and of their checks."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas import patterns
from app.api.schemas.base import Body, Details, Moment, View
from app.api.schemas.brakes import Brake, Note
from app.api.schemas.hardware import GROWS
from app.api.schemas.lease_bodies import RegionName, TypeName
from app.domain.account_checks import CheckResult, CheckSubject
from app.domain.brakes import BrakeName
from app.domain.offerings import Market


class CordonedOfferings(Body):
    """The offerings and reservations of a region that have each value that is set, also those that appear later."""

    region: RegionName
    zone: Annotated[
        str | None,
        Field(pattern=patterns.REGION.regex, examples=["us-east-1a"], description="Null: every zone of the region."),
    ] = None
    instance_type: Annotated[TypeName | None, Field(description="Null: every instance type.")] = None
    market: Annotated[Market | None, Field(strict=False, description="Null: every market.")] = None


class AccountCordon(Body):
    """Whether to stop launches at an account, or at some of its offerings. Running leases continue."""

    cordoned: bool
    note: Note = None
    offerings: Annotated[
        CordonedOfferings | None,
        Field(
            description="Only these offerings. A cordon is lifted with the same values with which it was set. "
            "Null: the whole account."
        ),
    ] = None


class AccountState(StrEnum):
    """The state of an account.

    `failing`: the provider rejects the credentials. `failing_catalogue`: the offerings of a region cannot be
    read. `draining`: the account is no longer configured; gpulease serves it until its last VM is deleted. The list may grow.
    """

    UNCHECKED = "unchecked"
    OK = "ok"
    FAILING = "failing"
    FAILING_CATALOGUE = "failing_catalogue"
    DISABLED = "disabled"
    DRAINING = "draining"


class OfferingCordon(Brake):
    """An operator's stop of launches at offerings of a region. A value that is null covers all."""

    zone: str | None
    instance_type: str | None
    market: Market | None


class AccountRegion(View):
    """The results of observing a region."""

    region: str
    last_complete_listing_at: Moment | None
    listed: Annotated[int | None, Field(description="VMs in the last complete listing.")]
    listing_calls: int | None
    listing_seconds: float | None
    cycles: int
    last_error: Details | None
    blocked: Annotated[
        Details | None,
        Field(
            description="Why the provider refuses every launch there: `class`, `code`, `message`, `since`. Nothing is "
            "launched there before `until`. A new run of the account's checks ends it early. Null: launches are possible."
        ),
    ]
    cordons: Annotated[
        list[OfferingCordon], Field(description="Nothing is launched at offerings that one of them covers.")
    ]
    catalogue_error: Annotated[
        str | None,
        Field(description="Why the last reading of the region's offerings failed. Null: it did not fail."),
    ]
    service_quotas: Annotated[list[Details] | None, Field(description="The provider's own limits.")]


class Account(View):
    """A cloud account."""

    name: str
    provider: Annotated[str, Field(description="The cloud provider. " + GROWS)]
    state: AccountState
    identity: Annotated[str | None, Field(description="The provider's id of the account, pinned at first use.")]
    cordoned: Brake | None
    draining: bool
    brakes: Annotated[
        list[BrakeName], Field(description="Brakes that are set on the account or in one of its regions.")
    ]
    last_error: Details | None
    checked_at: Moment | None
    created_at: Moment
    last_check_at: Annotated[
        Moment | None, Field(description="End of the last checks, see `GET /v1/ops/accounts/{name}/checks`.")
    ]
    failed_checks: Annotated[int | None, Field(description="Failed checks of the last run. Null: none has run yet.")]
    regions: list[AccountRegion]


class AccountCheck(View):
    """One check of an account."""

    subject: CheckSubject
    name: Annotated[str, Field(description="The right, image, subnet, quota or region.")]
    result: CheckResult
    detail: Annotated[str, Field(description="What was read, or the provider's error.")]
    fix: Annotated[str | None, Field(description="What to do about it. Null for a passed check.")]
    region: Annotated[str | None, Field(description="Null: the whole account.")]


class AccountChecks(View):
    """The last checks of an account, made once a day and on request. `gpulease-server check` makes the same checks."""

    account: str
    checked_at: Annotated[Moment | None, Field(description="End of the last run. Null: none has run yet.")]
    requested_at: Annotated[Moment | None, Field(description="The last request for a run.")]
    passed: int
    failed: int
    not_checked: Annotated[int, Field(description="Checks that no harmless call can make.")]
    checks: list[AccountCheck]


class AccountPage(View):
    """All accounts, sorted by name."""

    items: list[Account]
    next_cursor: None
