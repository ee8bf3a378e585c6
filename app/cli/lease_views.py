"""Terminal output of leases, attempts and consoles."""

from collections.abc import Iterable
from decimal import Decimal

from rich.table import Table
from rich.text import Text

from app.cli import times
from app.cli.errors import Json
from app.cli.layout import Layout
from app.cli.output import Columns, Faces, at, details, price, printable, rounded, since, when
from app.cli.sheet import Sheet
from app.cli.texts import amount, error_text, gpus, location, not_included, placement, reason_text, requested

STATE_STYLES = {
    "queued": "yellow",
    "provisioning": "cyan",
    "booting": "cyan",
    "active": "green",
    "releasing": "magenta",
    "released": "dim",
    "failed": "red",
}


def state(item: Json) -> Text:
    """The state in its colour."""
    name = str(item.get("state"))
    return Text(printable(name), style=STATE_STYLES.get(name, ""))


def extension(before: Json, after: Json) -> str:
    """What an extension adds: `extended by 4 h until 2026-01-01 …; adds at most 88.00 USD of compute at 22.00 USD/h`."""
    old, new = times.parse_time(before.get("expires_at")), times.parse_time(after.get("expires_at"))
    if old is None or new is None:
        return "extended"
    added = (new - old).total_seconds()
    text = f"extended by {times.duration(added)} until {after['expires_at']}"
    rate = at(after, "placement.price_per_hour")
    if rate is None:
        return text
    return f"{text}; adds at most {rounded(Decimal(rate) * int(added) / 3600)} USD of compute at {rounded(rate)} USD/h"


def reason(item: Json) -> str | None:
    """`code: message` of the lease's reason."""
    return reason_text(item["reason"]) if item.get("reason") else None


def refusal(attempt: Json) -> str | None:
    """The attempt's error in words."""
    return error_text(attempt["error"]) if attempt.get("error") else None


def ends(item: Json) -> bool:
    """True when the lease has ended or is ending: it accepts no login and does not expire."""
    return bool(item.get("terminal")) or item.get("state") == "releasing"


def connect(item: Json) -> str | None:
    """The command to log in. None unless the VM runs."""
    return None if ends(item) else at(item, "connection.ssh_command")


def expires(item: Json) -> str | None:
    """When the lease expires, relative to now. None for a lease that ends before."""
    return None if ends(item) else since(item.get("expires_at"))


def effective_end(item: Json) -> str | None:
    """When the lease ends by its term or its cost cap, relative to now. None for a lease that ends before."""
    return None if ends(item) else since(item.get("ends_at") or item.get("expires_at"))


def cost(item: Json) -> str | None:
    """`1.25 USD`, and `1.25 USD to date` before the lease has ended: what it has cost."""
    accrued = rounded(at(item, "cost.accrued"))
    to_date = "" if item.get("terminal") else " to date"
    return None if accrued is None else f"{accrued} {at(item, 'cost.currency') or 'USD'}{to_date}"


def price_parts(item: Json) -> str | None:
    """`compute 21.96, disk 0.02, address 0.005`: the hourly prices of the parts. None without parts beyond compute."""
    parts = {name: short for name, price in (at(item, "cost.parts") or {}).items() if (short := rounded(price))}
    return ", ".join(f"{name} {price}" for name, price in parts.items()) if len(parts) > 1 else None


def cap(item: Json) -> str | None:
    """When the lease ends because of its cost cap, relative to now. None if it reaches its expiry first."""
    end = item.get("ends_at")
    return None if ends(item) or end in (None, item.get("expires_at")) else f"{since(end)} (cost cap)"


def estimate(item: Json) -> str | None:
    """`43.92 USD for 2 h`: the compute total for the term, with its extensions. None without an estimate."""
    total = rounded(at(item, "estimate.price_for_term"))
    created, end = times.parse_time(item.get("created_at")), times.parse_time(item.get("expires_at"))
    if total is None or ends(item):
        return None
    term = f" for {times.duration((end - created).total_seconds())}" if created and end else " for the term"
    return f"{total} {at(item, 'estimate.currency') or 'USD'}{term}"


def interruption(item: Json) -> str | None:
    """The announced interruption and its time. None without one."""
    notice = item.get("interruption")
    return f"the provider interrupts the VM {since(at(notice, 'deadline_at')) or 'soon'}" if notice else None


def money(amount: object, unit: str) -> str | None:
    """A decimal string with its unit; None stays None."""
    return None if amount is None else f"{amount} {unit}"


def _gibibytes(value: object) -> str | None:
    return None if value is None else f"{amount(value)} GiB"


LEASES: Columns = (
    ("ID", "id"),
    ("NAME", "name"),
    ("STATE", state),
    ("GPUS", lambda item: gpus(item.get("placement")) or requested(item.get("request"))),
    ("LOCATION", lambda item: location(item.get("placement"))),
    ("TYPE", "placement.instance_type"),
    ("MARKET", "placement.market"),
    ("USD/H", price("placement.price_per_hour")),
    ("COST USD", price("cost.accrued")),
    ("EXPIRES", Faces(effective_end, "expires_at")),
    ("CREATED", when("created_at")),
)

LEASES_LAYOUT = Layout(
    ("NAME", "STATE", "GPUS", "LOCATION", "EXPIRES", "USD/H", "TYPE", "MARKET", "ID", "COST USD", "CREATED"),
    wrap={"LOCATION": 14, "NAME": 20},
    right=frozenset({"USD/H", "COST USD"}),
)
"A name replaces an id in every command, so names come first."

ATTEMPTS: Columns = (
    ("N", "n"),
    ("PLACEMENT", lambda item: placement(item.get("offering"))),
    ("OUTCOME", "outcome"),
    ("STARTED", when("started_at")),
    ("ENDED", when("ended_at")),
    ("ERROR", refusal),
)
ATTEMPTS_LAYOUT = Layout(
    ("N", "PLACEMENT", "OUTCOME", "ERROR", "STARTED", "ENDED"), wrap={"PLACEMENT": 18, "ERROR": 24}
)

CONSOLE: Columns = (("N", "n"), ("WHEN", when("created_at")), ("TEXT", "text"))
CONSOLE_LAYOUT = Layout(("TEXT", "N", "WHEN"), wrap={"TEXT": 30})


def lease(item: Json) -> Table:
    """All details of one lease."""
    return details([*_identity(item), *_machine(item), *_money(item), *_times(item), *_rest(item)])


def sheet(item: Json) -> Sheet:
    """One lease as a row of the list."""
    return Sheet(LEASES, (item,))


def _identity(item: Json) -> Iterable[tuple[str, object]]:
    yield "id", item.get("id")
    yield "name", item.get("name")
    yield "tenant", item.get("tenant_id")
    yield "state", state(item)
    yield "reason", reason(item)
    yield "provider error", item.get("provider_message")
    yield "request", requested(item.get("request"))


def _machine(item: Json) -> Iterable[tuple[str, object]]:
    place = item.get("placement")
    yield "placement", placement(place)
    yield "account", at(place, "account")
    yield "gpus", gpus(place)
    yield "vcpus", at(place, "vcpus")
    yield "memory", _gibibytes(at(place, "memory_gib"))
    yield "image", at(place, "image.name") or at(place, "image.id")
    yield "instance", at(place, "instance_id")
    if not ends(item):
        yield "connect", connect(item)
        yield "public ip", at(item, "connection.public_ip")
        yield "private ip", at(item, "connection.private_ip")


def _money(item: Json) -> Iterable[tuple[str, object]]:
    currency = at(item, "cost.currency") or "USD"
    what = "compute " if at(item, "cost.covers") == "compute" else ""
    prices = ("cost.rate_per_hour", "placement.price_per_hour", "estimate.price_per_hour")
    price_now = None if ends(item) else next((rate for path in prices if (rate := at(item, path))), None)
    yield f"{what}cost", cost(item)
    yield f"{what}price", money(rounded(price_now), f"{currency}/h")
    yield "price parts", None if ends(item) else price_parts(item)
    yield f"{what}total", estimate(item)
    yield "cost cap", money(rounded(item.get("max_cost")), currency)
    yield "not included", not_included(item.get("cost"))


def _times(item: Json) -> Iterable[tuple[str, object]]:
    for name in ("created_at", "ready_at", "expires_at", "release_requested_at", "ended_at"):
        shown = expires(item) if name == "expires_at" else since(item.get(name))
        yield name.removesuffix("_at").replace("_", " "), shown
    yield "ends", cap(item)


def _rest(item: Json) -> Iterable[tuple[str, object]]:
    yield "interruption", interruption(item)
    yield "attempts", item.get("attempts_count")
    yield "labels", item.get("labels")
