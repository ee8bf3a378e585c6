"""Terminal output of leases, attempts and consoles."""

from collections.abc import Iterable
from decimal import Decimal

from rich.table import Table

from app.cli.errors import Json
from app.cli.gpus import use as gpu_use
from app.cli.render import states, times
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, DualValue, at, details, price, rounded, since, when
from app.cli.render.sheet import Sheet
from app.cli.render.texts import amount, gpus, location, not_included, placement, requested


def extension(before: Json, after: Json) -> str:
    """What an extension adds: `extended by 4 h until 2026-01-01 …; adds at most 88.00 USD at 22.00 USD/h`."""
    old, new = times.parse_time(before.get("expires_at")), times.parse_time(after.get("expires_at"))
    if old is None or new is None:
        return "extended"
    added = (new - old).total_seconds()
    text = f"extended by {times.duration(added)} until {after['expires_at']}"
    rate = price_now(after)
    if rate is None:
        return text
    return f"{text}; adds at most {rounded(Decimal(rate) * int(added) / 3600)} USD at {rounded(rate)} USD/h"


def released(item: Json) -> str:
    """What a release has led to: `train-1 (lease_…) is being released; it has cost 1.25 USD`."""
    label = f"{item['name']} ({item['id']})" if item.get("name") else str(item["id"])
    fact = f"had ended: {item['state']}" if item.get("terminal") else "is being released"
    accrued = rounded(at(item, "cost.accrued"))
    return f"{label} {fact}" + (f"; it has cost {accrued} USD" if accrued else "")


def connect(item: Json) -> str | None:
    """The command to log in. None unless the VM runs."""
    return None if states.ends(item) else at(item, "connection.ssh_command")


def cost(item: Json) -> str | None:
    """`1.25 USD`, and `1.25 USD to date` before the lease has ended: what it has cost. With its spend cap, `of 5.00 USD`."""
    accrued = rounded(at(item, "cost.accrued"))
    if accrued is None:
        return None
    currency, cap = at(item, "cost.currency") or "USD", rounded(item.get("max_cost"))
    to_date = "" if item.get("terminal") else " to date"
    of_cap = "" if cap is None else f", at most {cap} {currency}"
    return f"{accrued} {currency}{to_date}{of_cap}"


def price_now(item: Json) -> str | None:
    """USD an hour with all parts: what the lease is billed, was billed last, or would be billed at its first choice."""
    paths = ("cost.price_per_hour", "placement.price_per_hour", "estimate.price_per_hour")
    return next((str(price) for path in paths if (price := at(item, path)) is not None), None)


def estimate(item: Json) -> str | None:
    """`43.92 USD for 2 h`: what the term costs at most, with its extensions. None without an estimate."""
    total = rounded(at(item, "estimate.price_for_term"))
    created, end = times.parse_time(item.get("created_at")), times.parse_time(item.get("expires_at"))
    if total is None or states.ends(item):
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
    ("STATE", states.state),
    ("GPUS", lambda item: gpus(item.get("placement")) or requested(item.get("request"))),
    ("LOCATION", lambda item: location(item.get("placement"))),
    ("TYPE", "placement.instance_type"),
    ("MARKET", "placement.market"),
    ("USD/H", DualValue(lambda item: rounded(price_now(item)), price_now)),
    ("COST USD", price("cost.accrued")),
    ("EXPIRES", DualValue(states.expires, "ends_at")),
    ("CREATED", when("created_at")),
    ("GPU %", "utilization.gpu_percent"),
)

LEASES_LAYOUT = Layout(
    ("NAME", "STATE", "GPUS", "LOCATION", "EXPIRES", "USD/H", "GPU %", "TYPE", "MARKET", "ID", "COST USD", "CREATED"),
    wrap={"LOCATION": 14, "NAME": 20},
    right=frozenset({"GPU %", "USD/H", "COST USD"}),
)
"A name replaces an id in every command, so names come first."

ATTEMPTS: Columns = (
    ("N", "n"),
    ("PLACEMENT", lambda item: placement(item.get("offering"))),
    ("OUTCOME", "outcome"),
    ("STARTED", when("started_at")),
    ("ENDED", when("ended_at")),
    ("ERROR", states.refusal),
)
ATTEMPTS_LAYOUT = Layout(
    ("N", "PLACEMENT", "OUTCOME", "ERROR", "STARTED", "ENDED"), wrap={"PLACEMENT": 18, "ERROR": 24}
)

CONSOLE: Columns = (("N", "n"), ("WHEN", when("created_at")), ("TEXT", "text"))
CONSOLE_LAYOUT = Layout(("TEXT", "N", "WHEN"), wrap={"TEXT": 30})


def lease(item: Json) -> Table:
    """All details of one lease."""
    return details([*_identity(item), *_machine(item), *_gpus(item), *_money(item), *_times(item), *_rest(item)])


def sheet(item: Json) -> Sheet:
    """One lease as a row of the list."""
    return Sheet(LEASES, (item,))


def _identity(item: Json) -> Iterable[tuple[str, object]]:
    yield "id", item.get("id")
    yield "name", item.get("name")
    yield "tenant", item.get("tenant_id")
    yield "state", states.state(item)
    yield "reason", states.reason(item)
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
    mounts = at(item, "request.volumes") or ()
    yield "volumes", ", ".join(f"{mount['name']}:{mount['path']}" for mount in mounts) or None
    yield "instance", at(place, "instance_id")
    if not states.ends(item):
        yield "connect", connect(item)
        yield "public ip", at(item, "connection.public_ip")
        yield "private ip", at(item, "connection.private_ip")


def _gpus(item: Json) -> Iterable[tuple[str, object]]:
    yield "gpu check", gpu_use.proof(item)
    yield "health", gpu_use.health(item)
    if not states.ends(item):
        yield "utilization", gpu_use.utilization(item)
        yield "idle", gpu_use.idle(item)


def _money(item: Json) -> Iterable[tuple[str, object]]:
    currency = at(item, "cost.currency") or "USD"
    present = None if states.ends(item) else price_now(item)
    yield "cost", cost(item)
    yield "price", money(_with_parts(item, rounded(present)), f"{currency}/h")
    yield "total", estimate(item)
    yield "not included", not_included(item.get("cost"))


def _with_parts(item: Json, rate: object) -> str | None:
    """`1.02` with the parts that are not zero: `1.02 (compute 1.01, disk 0.01)`."""
    parts = at(item, "cost.parts") or {}
    known = {name: amount for name, amount in parts.items() if amount is not None and Decimal(amount)}
    if rate is None or len(known) < 2:
        return None if rate is None else str(rate)
    return f"{rate} ({', '.join(f'{name} {amount}' for name, amount in known.items())})"


_ENDS = frozenset({"expires_at", "ends_at"})


def _times(item: Json) -> Iterable[tuple[str, object]]:
    for name in ("created_at", "ready_at", "expires_at", "ends_at", "release_requested_at", "ended_at"):
        if name == "ends_at" and item.get(name) == item.get("expires_at"):
            continue
        value = None if name in _ENDS and states.ends(item) else since(item.get(name))
        yield name.removesuffix("_at").replace("_", " "), value


def _rest(item: Json) -> Iterable[tuple[str, object]]:
    yield "interruption", interruption(item)
    yield "attempts", item.get("attempts_count")
    yield "labels", item.get("labels")
