"""Terminal output of groups and their members."""

from collections import Counter
from datetime import datetime

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.text import Text

from app.cli.errors import Json
from app.cli.render import times
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, DualValue, at, details, printable, since, when
from app.cli.render.sheet import Sheet
from app.cli.render.states import STATE_STYLES, reason
from app.cli.render.texts import requested

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


GROUPS: Columns = (
    ("ID", "id"),
    ("NAME", "name"),
    ("STATE", state),
    ("READY", ready),
    ("LOCATION", lambda item: at(item, "pool.zone") or at(item, "pool.region")),
    ("TYPE", "pool.instance_type"),
    ("EXPIRES", DualValue(expires, "expires_at")),
    ("CREATED", when("created_at")),
)
GROUPS_LAYOUT = Layout(
    ("ID", "NAME", "STATE", "READY", "TYPE", "LOCATION", "EXPIRES", "CREATED"),
    wrap={"NAME": 16},
    right=frozenset({"READY"}),
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
        ("expires", expires(item)),
        ("created", since(item.get("created_at"))),
        ("ended", since(item.get("ended_at"))),
    ]
    return Parts(details(rows), Text(), FittedTable(MEMBERS, item.get("members") or (), MEMBERS_LAYOUT))


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
