"""Which budget limits a lease most."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from app.cli.errors import Json
from app.cli.mcp.answers import Budget
from app.cli.money import budgets
from app.cli.render.output import at

if TYPE_CHECKING:
    from app.cli.client import Api


def all_budgets(api: "Api") -> list[Json]:
    """The budgets that the key can read."""
    return list(api.page(budgets.PATH)["items"])


def tightest(items: Iterable[Json], owner: Json, labels: Mapping[str, str]) -> Json | None:
    """The budget with the least money available among those that count leases of the owner's key with these labels.

    `owner` has `key_id` and `tenant_id`: a lease, or GET /v1/me for a lease to create. A budget that only notifies
    counts when no other one matches.
    """
    matching = list(_matching(items, owner, labels))
    binding = [item for item in matching if item["when_exceeded"] != "notify"]
    return min(binding or matching, key=lambda item: Decimal(item["available"]), default=None)


def left_of(items: Iterable[Json], owner: Json, labels: Mapping[str, str] | None) -> Budget | None:
    """As `tightest`, in the form of an answer."""
    least = tightest(items, owner, labels or {})
    return None if least is None else Budget.of(least)


def left_for(api: "Api", lease: Json) -> Budget | None:
    """Of the budgets that count this lease."""
    return left_of(all_budgets(api), lease, lease.get("labels"))


def left_for_new(api: "Api", labels: Mapping[str, str] | None) -> Budget | None:
    """Of the budgets that count a new lease of the caller's key with these labels."""
    return left_of(all_budgets(api), api.get("/v1/me"), labels)


def _matching(items: Iterable[Json], owner: Json, labels: Mapping[str, str]) -> Iterator[Json]:
    own = {f"{name}:{value}" for name, value in labels.items()}
    for item in items:
        scope = item["scope"]
        counts = {
            "tenant": True,
            "key": scope.get("key_id") == owner["key_id"],
            "label": scope.get("label") in own,
        }.get(scope["kind"], False)
        tenant_id = item.get("tenant_id") or at(item, "scope.tenant_id")
        if counts and tenant_id == owner["tenant_id"]:
            yield item
