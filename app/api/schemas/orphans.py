"""Models of VMs and other resources that belong to no lease."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Details, Moment, Money, Page, View


class OrphanCause(StrEnum):
    """Why a VM belongs to no lease. The list may grow.

    `ended_lease`: the VM's lease has ended. `other_attempt`: the VM's lease uses another VM. `lost_row`: gpulease
    launched the VM, but the database has lost its lease. The VM ends at its deadline, or an operator ends it.
    `copied_tags`: gpulease did not launch the VM, but it carries tags of a VM of gpulease. gpulease ends it after a
    grace period. `leftover`: a resource other than a VM that costs money.
    """

    ENDED_LEASE = "ended_lease"
    OTHER_ATTEMPT = "other_attempt"
    LOST_ROW = "lost_row"
    COPIED_TAGS = "copied_tags"
    LEFTOVER = "leftover"


class OrphanState(StrEnum):
    """The progress of ending an orphan. The list may grow."""

    SEEN = "seen"
    ENDING = "ending"
    GONE = "gone"
    ADOPTED = "adopted"


class Adoption(View):
    """The accepted request. Workers execute it at the next inventory of each region."""

    requested: Annotated[int, Field(description="Orphans of cause `lost_row` whose leases will be rebuilt.")]


class Orphan(View):
    """A VM or other resource that belongs to no lease, and the actions taken on it. Ended orphans stay for 30 days."""

    id: Annotated[str, Field(description="The orphan's id.")]
    provider: str
    account: str
    region: str
    zone: str
    instance_id: str
    instance_type: str
    cause: OrphanCause
    state: OrphanState
    lease_id: str | None
    attempt_n: int | None
    tags: Details
    price_per_hour: Annotated[
        Money | None, Field(description="The VM's own price, or the catalogue price if the VM's price is unknown.")
    ]
    age_seconds: Annotated[
        float, Field(description="Seconds from the launch, or the first sighting, until the end, or until now.")
    ]
    cost: Annotated[
        Money | None,
        Field(description="Estimated cost in USD: the price for `age_seconds`. Null: the price is unknown."),
    ]
    launched_at: Moment | None
    first_seen_at: Moment
    last_seen_at: Moment
    sightings: int
    end_after: Annotated[
        Moment | None,
        Field(description="gpulease ends the orphan after this time. Null: at its deadline, or by an operator."),
    ]
    deadline_at: Annotated[Moment | None, Field(description="The deadline in the VM's tags.")]
    end_requested_at: Moment | None
    end_error: Annotated[
        Details | None,
        Field(description="Why the provider rejected the last request to end the orphan: class, code, message."),
    ]
    gone_at: Moment | None
    adopt_requested_at: Moment | None
    adopt_error: Annotated[str | None, Field(description="Why the lease could not be rebuilt.")]


class OrphanPage(Page):
    """A page of orphans, sorted by first sighting, newest first."""

    items: list[Orphan]
