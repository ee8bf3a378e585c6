"""Terminal output of groups and their members."""

from collections import Counter
from datetime import datetime
from decimal import Decimal

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.text import Text

from app.cli.errors import Json
from app.cli.leases import views as lease_views
from app.cli.render import times
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, DualValue, at, details, price, printable, rounded, since, when
from app.cli.render.sheet import Sheet
from app.cli.render.states import STATE_STYLES, reason
from app.cli.render.texts import requested

_ENDED_STATES = frozenset({"released", "failed"})
_STYLES = {**STATE_STYLES, "forming": "cyan", "degraded": "yellow", "ended": "dim"}


def state(item: Json) -> Text:
    """The state in its colour."""
    name = str(item.get("state"))
    return Text(printable(name), style=_STYLES.get(name, ""))


def ready(item: Json) -> str:
    """`3/4`: active members of all."""
    return f"{item.get('ready')}/{item.get('size')}"


def pool(item: Json | None) -> str | None:
    """`us-east-1a p5.48xlarge on_demand (main)`: where all members are placed. None without a pool."""
    if not item:
        return None
    place = item.get("zone") or item.get("region")
    return f"{place} {item.get('instance_type')} {item.get('market')} ({item.get('account')})"


def expires(item: Json) -> str | None:
    """When the last member expires, relative to now. None for a group that ends."""
    return None if item.get("release_requested_at") or item.get("terminal") else since(item.get("expires_at"))


def price_now(item: Json) -> str | None:
    """USD an hour of all members: what they are billed, or would be billed at their first choice."""
    paths = ("cost.price_per_hour", "estimate.price_per_hour")
    return next((str(price) for path in paths if (price := at(item, path)) is not None), None)


def growth(item: Json, size: int) -> str | None:
    """`adds 4 members at 21.96 USD/h each: 87.84 USD/h, at most 351.36 USD until 2026-01-01 …`. None: it does not grow."""
    live = sum(member["state"] not in _ENDED_STATES for member in item.get("members") or ())
    total, added = at(item, "estimate.price_per_hour"), size - live
    if total is None or not live or size <= item["size"]:
        return None
    each = Decimal(total) / live
    end = times.parse_time(item.get("expires_at"))
    left = 0.0 if end is None else max(0.0, (end - times.now()).total_seconds())
    members = f"{added} member{'s' * (added != 1)} at {rounded(each)} USD/h each"
    return (
        f"adds {members}: {rounded(each * added)} USD/h, {_at_most(each * added, left)} until {item.get('expires_at')}"
    )


def extension(item: Json, body: Json) -> str | None:
    """`adds 4 h for 8 members: at most 702.72 USD at 175.68 USD/h`. None: no member can be extended."""
    price, end = price_now(item), times.parse_time(item.get("expires_at"))
    until = times.parse_time(body.get("expires_at"))
    if price is None or end is None:
        return None
    added = float(body["extend_by_seconds"]) if until is None else max(0.0, (until - end).total_seconds())
    amount = f"{_at_most(Decimal(price), added)} at {rounded(price)} USD/h"
    return f"adds {times.duration(added)} for {item['size']} members: {amount}"


def _at_most(price: Decimal, seconds: float) -> str:
    return f"at most {rounded(price * int(seconds) / 3600, up=True)} USD"


GROUPS: Columns = (
    ("ID", "id"),
    ("NAME", "name"),
    ("STATE", state),
    ("READY", ready),
    ("LOCATION", lambda item: at(item, "pool.zone") or at(item, "pool.region")),
    ("TYPE", "pool.instance_type"),
    ("USD/H", DualValue(lambda item: rounded(price_now(item)), price_now)),
    ("COST USD", price("cost.accrued")),
    ("EXPIRES", DualValue(expires, "expires_at")),
    ("CREATED", when("created_at")),
)
GROUPS_LAYOUT = Layout(
    ("NAME", "STATE", "READY", "TYPE", "USD/H", "EXPIRES", "LOCATION", "COST USD", "ID", "CREATED"),
    wrap={"NAME": 16},
    right=frozenset({"READY", "USD/H", "COST USD"}),
)


def check(item: Json) -> str | None:
    """`ok, 185 GB/s`, `2 members missing` or `ok, all-reduce failed`: what the member's VM found. None: nothing yet."""
    result = item.get("check")
    if not result:
        return None
    lost = len(result.get("unreachable") or ())
    mesh = "ok" if result.get("mesh") == "ok" else f"{lost} member{'s' * (lost != 1)} missing"
    gbps, reduced = result.get("all_reduce_gbps"), result.get("all_reduce")
    if gbps:
        return f"{mesh}, {gbps:.0f} GB/s"
    return f"{mesh}, all-reduce failed" if reduced == "failed" else mesh


MEMBERS: Columns = (
    ("RANK", "rank"),
    ("LEASE", "lease_id"),
    ("NAME", "name"),
    ("STATE", state),
    ("PUBLIC IP", "public_ip"),
    ("PRIVATE IP", "private_ip"),
    ("ZONE", "zone"),
    ("NETWORK", check),
    ("REASON", reason),
)
MEMBERS_LAYOUT = Layout(
    ("RANK", "STATE", "NETWORK", "PRIVATE IP", "PUBLIC IP", "LEASE", "NAME", "ZONE", "REASON"),
    wrap={"NAME": 16, "REASON": 24},
    right=frozenset({"RANK"}),
)


def group(item: Json) -> RenderableType:
    """A group and its members."""
    rows = [
        ("id", item["id"]),
        ("name", item["name"]),
        ("state", state(item)),
        ("reason", reason(item)),
        ("ready", f"{ready(item)} members, at least {item.get('min_size')} needed"),
        ("each", requested(item.get("lease"))),
        ("pool", pool(item.get("pool"))),
        ("pools tried", "\n".join(tried(attempt) for attempt in item.get("pools_tried") or ())),
        ("placement", item.get("placement")),
        ("interconnect", item.get("interconnect")),
        ("member loss", item.get("on_member_loss")),
        ("time to form", times.duration(item.get("form_seconds") or 0)),
        ("cost", lease_views.cost(item)),
        ("price", _price(item)),
        ("total", _total(item)),
        ("expires", expires(item)),
        ("created", since(item.get("created_at"))),
        ("ended", since(item.get("ended_at"))),
    ]
    return Parts(details(rows), Text(), FittedTable(MEMBERS, item.get("members") or (), MEMBERS_LAYOUT))


def _price(item: Json) -> str | None:
    """`87.84 USD/h for all members`. None for a group that has ended."""
    present = None if item.get("terminal") else rounded(price_now(item))
    return None if present is None else f"{present} USD/h for all members"


def _total(item: Json) -> str | None:
    total = rounded(at(item, "estimate.price_for_term"))
    return None if total is None or item.get("release_requested_at") else f"{total} USD for the term of all members"


def tried(item: Json) -> str:
    """A pool that did not form the group, and when it was given up."""
    return f"{pool(item)}, given up {since(item.get('failed_at')) or ''}".rstrip()


def sheet(item: Json) -> Sheet:
    """The members, for programs."""
    return Sheet(MEMBERS, item.get("members") or ())


def progress(item: Json, now: datetime) -> str:
    """One line of a group that forms: `forming 5/8 ready, 2 booting, 1 queued in us-east-1a g5.xlarge; 2 min of 15 min`."""
    counts = Counter(str(member["state"]) for member in item.get("members") or ())
    others = "".join(f", {count} {name}" for name, count in sorted(counts.items()) if name != "active")
    line = f"{item['state']} {ready(item)} ready{others}"
    where, started = item.get("pool"), times.parse_time(item.get("pool_started_at"))
    if where:
        line += f" in {where.get('zone') or where.get('region')} {where.get('instance_type')}"
    if item["state"] == "forming" and started is not None:
        spent = times.duration(max(0.0, (now - started).total_seconds()))
        line += f"; {spent} of {times.duration(item['form_seconds'])}"
    failed = len(item.get("pools_tried") or ())
    return line + (f"; {failed} pools tried" if failed > 1 else "; 1 pool tried" if failed else "")
