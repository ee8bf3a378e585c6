"""The tools: each is one or two calls of the REST API with the caller's key."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from app.cli import lookup
from app.cli.errors import Json
from app.cli.leases import quotes
from app.cli.mcp.answers import (
    Budget,
    BudgetsAnswer,
    CostLine,
    CostsAnswer,
    Lease,
    LeaseAnswer,
    LeasesAnswer,
    PlanAnswer,
    QuoteAnswer,
    Volume,
    VolumesAnswer,
)
from app.cli.mcp.arguments import LeaseArguments
from app.cli.mcp.creation import LEASES, Creation
from app.cli.mcp.remaining import all_budgets, left_for, left_for_new, left_of
from app.cli.paths import path_of
from app.cli.render import times
from app.cli.volumes import PATH as VOLUMES

if TYPE_CHECKING:
    from app.cli.client import Api

_WAITING = frozenset({"queued", "provisioning", "booting"})
_LONGEST_POLL = 20
_MOST_LEASES, _MOST_LINES = 50, 200

Reference = Annotated[str, Field(description="Id or name of the lease.")]


@dataclass(frozen=True)
class Tools:
    """Every public method is a tool. `connect` opens the API with the key of the present call.

    Methods raise CliError for what the API refuses.
    """

    connect: Callable[[], AbstractContextManager["Api"]]
    labels: Mapping[str, str] = field(default_factory=dict)
    "Labels of every lease that these tools plan or create."
    creation: Creation = field(default_factory=lambda: Creation(LEASES))

    def plan(self, request: LeaseArguments) -> PlanAnswer:
        """Preview which offerings a lease would try, in order, with prices. Creates nothing and costs nothing."""
        with self.connect() as api:
            request = request.with_labels(self.labels)
            document = api.post(f"{LEASES}/plan", request.body())
            members = PlanAnswer.fields_of(document, request.ttl_seconds)
            return PlanAnswer(**members, remaining_budget=left_for_new(api, request.labels))

    def quote(self, request: LeaseArguments) -> QuoteAnswer:
        """Get a price for a lease that holds for 15 minutes. Creates no lease and costs nothing."""
        with self.connect() as api:
            request = request.with_labels(self.labels)
            document = api.create(quotes.PATH, request.body())
            prices = {name: document[name] for name in ("price_per_hour", "total", "valid_until")}
            members = PlanAnswer.fields_of(document["plan"], request.ttl_seconds)
            remaining = left_for_new(api, request.labels)
            return QuoteAnswer(**members, **prices, quote_id=document["id"], remaining_budget=remaining)

    def create_lease(
        self,
        request: LeaseArguments,
        *,
        quote_id: Annotated[
            str | None,
            Field(
                description="From the tool quote, with its ttl_seconds: the lease fails rather than start at a higher price."
            ),
        ] = None,
    ) -> LeaseAnswer:
        """Create a lease of a VM with GPUs. It costs money from the launch of the VM until its end.

        The lease ends by itself after ttl_seconds, even if this session ends. Release it earlier with release_lease.
        A repeated call with the same arguments returns the same lease as long as it has not ended.
        """
        with self.connect() as api:
            key_id = api.get("/v1/me")["key_id"]
            body = request.with_labels(self.labels).body() | ({} if quote_id is None else {"quote_id": quote_id})
            return _answer(api, self.creation.create(api, body, key_id))

    def list_leases(
        self,
        *,
        include_ended: Annotated[bool, Field(description="Also list leases that have ended.")] = False,
        label: Annotated[str | None, Field(description="Only leases with this label, as KEY:VALUE.")] = None,
    ) -> LeasesAnswer:
        """List the leases of the tenant with their states, costs and ends."""
        with self.connect() as api:
            params = {"state": None if include_ended else ["!terminal"], "label": label}
            page = api.page(LEASES, params, limit=_MOST_LEASES)
            items = all_budgets(api)
            return LeasesAnswer(
                leases=[Lease.of(item, left_of(items, item, item.get("labels"))) for item in page["items"]],
                more=bool(page.get("next_cursor")),
                remaining_budget=left_of(items, api.get("/v1/me"), self.labels),
            )

    def list_volumes(self) -> VolumesAnswer:
        """List the volumes of the tenant: disks that outlive leases, and which lease uses each."""
        with self.connect() as api:
            states = {"state": ["creating", "available", "deleting"]}
            page = api.page(VOLUMES, states, limit=_MOST_LEASES)
            return VolumesAnswer(
                volumes=[Volume.model_validate(item) for item in page["items"]],
                more=bool(page.get("next_cursor")),
                remaining_budget=left_of(all_budgets(api), api.get("/v1/me"), self.labels),
            )

    def show_lease(
        self,
        lease: Reference,
        *,
        wait_seconds: Annotated[
            int, Field(ge=0, le=60, description="Wait up to this long until the lease is active or has ended.")
        ] = 0,
    ) -> LeaseAnswer:
        """Show one lease: its state, cost, end, and how to log in."""
        with self.connect() as api:
            return _answer(api, _settled(api, lookup.lease_id(api, lease), wait_seconds))

    def extend_lease(
        self,
        lease: Reference,
        ends_in_seconds: Annotated[int, Field(ge=60, description="The lease ends this many seconds from now.")],
    ) -> LeaseAnswer:
        """Move the end of a lease to a later time. The time that is added costs money."""
        until = times.rfc3339(times.now() + timedelta(seconds=ends_in_seconds))
        with self.connect() as api:
            path = path_of(LEASES, lookup.lease_id(api, lease), "extend")
            return _answer(api, api.create(path, {"expires_at": until}))

    def release_lease(self, lease: Reference) -> LeaseAnswer:
        """End a lease and delete its VM with all data. It stops costing money as soon as the VM is gone."""
        with self.connect() as api:
            return _answer(api, api.delete(path_of(LEASES, lookup.lease_id(api, lease))))

    def costs(
        self,
        *,
        since: Annotated[str | None, Field(description="Start of the time: a day such as 2026-11-01, UTC.")] = None,
        until: Annotated[str | None, Field(description="End of the time. Default: now.")] = None,
        bucket: Annotated[Literal["hour", "day", "month"], Field(description="Length of a line's time.")] = "day",
        group_by: Annotated[
            list[str] | None,
            Field(
                max_length=2,
                description="Up to two of provider, region, gpu_model, market, instance_type, lease and label:KEY.",
            ),
        ] = None,
    ) -> CostsAnswer:
        """Show what leases have cost over time, in USD."""
        params = {"from": _moment(since), "to": _moment(until), "bucket": bucket}
        with self.connect() as api:
            query = {**params, "group_by": ",".join(group_by or ()) or None}
            page = api.page("/v1/costs", query, limit=_MOST_LINES)
            total = page.get("total")
            return CostsAnswer(
                lines=[CostLine.model_validate(item) for item in page["items"]],
                total=None if total is None else CostLine.model_validate(total),
                more=bool(page.get("next_cursor")),
                remaining_budget=left_for_new(api, self.labels),
            )

    def budgets(self) -> BudgetsAnswer:
        """List the budgets of the tenant: how much is spent, committed and available."""
        with self.connect() as api:
            items = all_budgets(api)
            return BudgetsAnswer(
                budgets=[Budget.of(item) for item in items],
                remaining_budget=left_of(items, api.get("/v1/me"), self.labels),
            )


def _answer(api: "Api", item: Json) -> LeaseAnswer:
    left = left_for(api, item)
    return LeaseAnswer(lease=Lease.of(item, left), remaining_budget=left)


def _settled(api: "Api", lease_id: str, seconds: int) -> Json:
    """The lease, as soon as it is active or ends, or after this time."""
    path = path_of(LEASES, lease_id)
    lease = api.get(path)
    end = times.now() + timedelta(seconds=seconds)
    while lease["state"] in _WAITING and (left := int((end - times.now()).total_seconds())) > 0:
        lease = api.get(path, {"poll_seconds": min(left, _LONGEST_POLL), "if_version": lease["version"]})
    return lease


def _moment(text: str | None) -> Any:
    """A day as its start in UTC. The API judges all other texts."""
    return f"{text}T00:00:00Z" if text is not None and "T" not in text else text
