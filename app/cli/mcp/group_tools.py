"""Tools for groups: leases that start together in one place, and end together."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, Field

from app.cli import lookup
from app.cli.errors import Json
from app.cli.groups.views import pool
from app.cli.mcp.answers import Answer, PlanAnswer, seconds_until
from app.cli.mcp.arguments import Amount, Hardware, Preparation
from app.cli.mcp.creation import GROUPS, Creation
from app.cli.mcp.remaining import left_for, left_for_new
from app.cli.paths import path_of
from app.cli.render import times
from app.cli.render.output import at
from app.cli.render.states import ends, reason

if TYPE_CHECKING:
    from app.cli.client import Api

_WAITING = frozenset({"queued", "forming"})
_POLL_SECONDS = 2.0
_MOST_GROUPS = 50
_OF_GROUP = ("name", "size", "placement", "interconnect")
_SMALLEST = Decimal("0.000001")

Reference = Annotated[str, Field(description="Id or name of the group.")]


@dataclass(frozen=True, kw_only=True)
class GroupShape(Hardware):
    """What a plan of a group depends on."""

    name: Annotated[
        str, Field(description="Unique among live groups. Members are the leases NAME-0, NAME-1 and so on.")
    ]
    size: Annotated[int, Field(ge=1, le=256, description="Number of members. Each is a lease of one VM.")]
    placement: Annotated[
        Literal["any", "same_zone", "cluster"],
        Field(description="any: one region. same_zone: one zone. cluster: close to each other in it."),
    ] = "any"
    interconnect: Annotated[
        Literal["none", "preferred", "required"], Field(description="A network fabric such as EFA or InfiniBand.")
    ] = "none"

    def body(self) -> Json:
        """As the API takes it: fields of the group, and of each member."""
        members = Hardware.body(self)
        return {name: members.pop(name) for name in _OF_GROUP if name in members} | {"lease": members}


@dataclass(frozen=True, kw_only=True)
class GroupArguments(Preparation, GroupShape):
    """What to lease as a group, for how long, and at most at which cost."""

    max_cost: Annotated[
        Amount, Field(description="Spend cap of the whole group in USD. Each member ends before it exceeds its share.")
    ]

    def body(self) -> Json:
        """As above. Each member gets an equal share of the cap."""
        body = GroupShape.body(self)
        share = (Decimal(body["lease"].pop("max_cost")) / self.size).quantize(_SMALLEST, ROUND_DOWN)
        return {**body, "lease": {**body["lease"], "max_cost": f"{share:f}"}}


class Group(BaseModel):
    """Leases that start together in one place, and end together. Times are UTC, amounts USD."""

    id: str
    name: str
    state: Annotated[str, Field(description="queued, forming, active, degraded, releasing or ended.")]
    reason: Annotated[str | None, Field(description="Why the group is in this state.")] = None
    size: int
    ready: Annotated[int, Field(description="Members whose VM is ready.")]
    ends_at: Annotated[str | None, Field(description="When the last member ends by itself.")]
    ends_in_seconds: Annotated[int | None, Field(description="Seconds until then. Null: it is ending or has ended.")]
    cost_so_far: str | None = None
    price_per_hour: Annotated[str | None, Field(description="Of all members now. Null: not billed now.")] = None
    expected_price_per_hour: Annotated[str | None, Field(description="Of all members, once all run.")] = None
    place: Annotated[str | None, Field(description="Zone, instance type, market and account. Null: not chosen.")] = None
    pools_failed: Annotated[int, Field(description="Places that were tried without success.")] = 0
    members: Annotated[
        dict[str, int] | None,
        Field(description="States of the members, with their numbers. show_lease NAME-0 shows one, with its login."),
    ] = None

    @classmethod
    def of(cls, item: Json) -> Self:
        """From the API's document."""
        members = item.get("members")
        return cls(
            **{name: item[name] for name in ("id", "name", "state", "size", "ready")},
            reason=reason(item),
            ends_at=item.get("expires_at"),
            ends_in_seconds=None if ends(item) else seconds_until(item.get("expires_at")),
            cost_so_far=at(item, "cost.accrued"),
            price_per_hour=at(item, "cost.price_per_hour"),
            expected_price_per_hour=at(item, "estimate.price_per_hour"),
            place=pool(item.get("pool")),
            pools_failed=len(item.get("pools_tried") or ()),
            members=None if members is None else dict(Counter(member["state"] for member in members)),
        )


class GroupAnswer(Answer):
    """One group."""

    group: Group


class GroupsAnswer(Answer):
    """Groups, the newest first."""

    groups: list[Group]
    more: Annotated[bool, Field(description="There are more groups than these.")]


class GroupPlanAnswer(PlanAnswer):
    """What the members of a group would try, in order. The prices of candidates are those of one member."""

    price_per_hour: Annotated[str | None, Field(description="USD, of all members at the first candidate.")]
    total: Annotated[str | None, Field(description="USD, of all members for the whole term.")]


@dataclass(frozen=True)
class GroupTools:
    """Every public method is a tool, as of `Tools`."""

    connect: Callable[[], AbstractContextManager["Api"]]
    labels: Mapping[str, str] = field(default_factory=dict)
    creation: Creation = field(default_factory=lambda: Creation(GROUPS))

    def plan_group(self, request: GroupShape) -> GroupPlanAnswer:
        """Preview where the members of a group would start, and what all cost. Creates nothing and costs nothing."""
        with self.connect() as api:
            body = request.body()
            if self.labels:
                body["lease"]["labels"] = dict(self.labels)
            document = api.post(f"{GROUPS}/plan", body)
            members = GroupPlanAnswer.fields_of(document, request.ttl_seconds)
            return GroupPlanAnswer(
                **members,
                price_per_hour=at(document, "cost.price_per_hour"),
                total=at(document, "cost.price_for_term"),
                remaining_budget=left_for_new(api, self.labels),
            )

    def create_group(self, request: GroupArguments) -> GroupAnswer:
        """Create a group of equal leases: all start in one place, or none keeps a VM. Every member costs money.

        The group ends by itself after ttl_seconds. Release it earlier with release_group.
        A repeated call with the same arguments returns the same group as long as it has not ended.
        """
        with self.connect() as api:
            key_id = api.get("/v1/me")["key_id"]
            return _answer(api, self.creation.create(api, request.with_labels(self.labels).body(), key_id))

    def list_groups(
        self, *, include_ended: Annotated[bool, Field(description="Also list groups that have ended.")] = False
    ) -> GroupsAnswer:
        """List the groups of the tenant with their states, costs and ends."""
        with self.connect() as api:
            page = api.page(GROUPS, {} if include_ended else {"state": "!ended"}, limit=_MOST_GROUPS)
            return GroupsAnswer(
                groups=[Group.of(item) for item in page["items"]],
                more=bool(page.get("next_cursor")),
                remaining_budget=left_for_new(api, self.labels),
            )

    def show_group(
        self,
        group: Reference,
        *,
        wait_seconds: Annotated[
            int, Field(ge=0, le=60, description="Wait up to this long until the group is formed or ends.")
        ] = 0,
    ) -> GroupAnswer:
        """Show one group: its state, cost, end, and the states of its members."""
        with self.connect() as api:
            return _answer(api, _settled(api, lookup.group_id(api, group), wait_seconds))

    def release_group(self, group: Reference) -> GroupAnswer:
        """End a group with all of its leases, and delete their VMs with all data."""
        with self.connect() as api:
            return _answer(api, api.delete(path_of(GROUPS, lookup.group_id(api, group))))


def _answer(api: "Api", item: Json) -> GroupAnswer:
    left = left_for(api, {**item, "labels": at(item, "lease.labels")})
    return GroupAnswer(group=Group.of(item), remaining_budget=left)


def _settled(api: "Api", group_id: str, seconds: int) -> Json:
    """The group, as soon as it is formed or ends, or after this time."""
    path = path_of(GROUPS, group_id)
    group = api.get(path)
    end = times.now() + timedelta(seconds=seconds)
    while group["state"] in _WAITING and times.now() < end:
        times.pause(_POLL_SECONDS)
        group = api.get(path)
    return group
