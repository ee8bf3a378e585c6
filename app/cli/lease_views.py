"""Terminal output of leases, attempts, events and plans."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.cli import times
from app.cli.errors import Json
from app.cli.layout import Layout
from app.cli.output import Columns, Faces, at, details, fields, printable, since, table, when, words
from app.cli.sheet import Sheet

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


def gpus(place: object) -> str | None:
    """`8 x A100 40 GiB` of an offering or placement; None without one."""
    model = at(place, "gpu.model")
    if not model:
        return None
    memory = at(place, "gpu.memory_gib")
    count = at(place, "gpu.count") or f"{at(place, 'gpu.min_count')} or more"
    return f"{count} x {model}" + (f" {memory} GiB" if memory else "")


def offering(place: object) -> str | None:
    """`aws us-east-1a p4d.24xlarge spot`; None without one."""
    parts = [
        at(place, "provider"),
        at(place, "zone") or at(place, "region"),
        at(place, "instance_type"),
        at(place, "market"),
    ]
    return " ".join(str(part) for part in parts if part) or None


def wanted(request: object) -> str | None:
    """The requested hardware."""
    return gpus(request) or words(at(request, "instance_types"))


def extension(before: Json, after: Json) -> str:
    """What an extension adds: `extended by 4 h until 2026-01-01 …; adds at most 88.00 USD at 22.00 USD an hour`."""
    old, new = times.parse_time(before.get("expires_at")), times.parse_time(after.get("expires_at"))
    if old is None or new is None:
        return "extended"
    added = (new - old).total_seconds()
    text = f"extended by {times.duration(added)} until {after['expires_at']}"
    price = at(after, "placement.price_per_hour")
    if price is None:
        return text
    return f"{text}; adds at most {float(price) * added / 3600:.2f} USD at {float(price):.2f} USD an hour"


def reason(item: Json) -> str | None:
    """`code: message` of the lease's reason."""
    code, message = at(item, "reason.code"), at(item, "reason.message")
    return ": ".join(str(part) for part in (code, message) if part) or None


def interruption(item: Json) -> str | None:
    """The announced interruption and its time. None without one."""
    notice = item.get("interruption")
    return f"the provider interrupts the VM {since(at(notice, 'deadline_at')) or 'soon'}" if notice else None


def money(amount: object, unit: str) -> str | None:
    """A decimal string with its unit; None stays None."""
    return None if amount is None else f"{amount} {unit}"


def refusal(attempt: Json) -> str | None:
    """The error: the provider's code and the message of gpulease; for operators also the provider's message."""
    message = at(attempt, "error.provider_message") or at(attempt, "error.message")
    parts = [at(attempt, "error.code") or at(attempt, "error.class"), message]
    return ": ".join(str(part) for part in parts if part) or None


LEASES: Columns = (
    ("ID", "id"),
    ("NAME", "name"),
    ("STATE", state),
    ("GPUS", lambda item: gpus(item.get("placement")) or wanted(item.get("request"))),
    ("WHERE", lambda item: offering(item.get("placement"))),
    ("USD/H", "placement.price_per_hour"),
    ("COST", "cost.accrued"),
    ("EXPIRES", Faces(lambda item: None if item.get("terminal") else since(item.get("expires_at")), "expires_at")),
    ("CREATED", when("created_at")),
)

LEASES_LAYOUT = Layout(
    ("NAME", "STATE", "GPUS", "WHERE", "EXPIRES", "USD/H", "ID", "COST", "CREATED"), wrap={"WHERE": 18, "NAME": 20}
)
"A name replaces an id in every command, so names come first."

ATTEMPTS: Columns = (
    ("N", "n"),
    ("WHERE", lambda item: offering(item.get("offering"))),
    ("OUTCOME", "outcome"),
    ("STARTED", when("started_at")),
    ("ENDED", when("ended_at")),
    ("ERROR", refusal),
)

CONSOLE: Columns = (("N", "n"), ("WHEN", when("at")), ("TEXT", "text"))

_EVENT_HEAD = frozenset({"id", "sequence", "tenant_id", "lease_id", "type", "at"})
EVENTS: Columns = (
    ("SEQUENCE", "sequence"),
    ("WHEN", when("at")),
    ("TYPE", "type"),
    (
        "WHAT",
        lambda item: {name: value for name, value in item.items() if name not in _EVENT_HEAD and value is not None},
    ),
)


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
    yield "provider's answer", item.get("provider_message")
    yield "wanted", wanted(item.get("request"))


def _machine(item: Json) -> Iterable[tuple[str, object]]:
    place = item.get("placement")
    yield "where", offering(place)
    yield "account", at(place, "account")
    yield "gpus", gpus(place)
    yield "vcpus", at(place, "vcpus")
    yield "memory", money(at(place, "memory_gib"), "GiB")
    yield "image", at(place, "image.name") or at(place, "image.id")
    yield "instance", at(place, "instance_id")
    yield "connect", at(item, "connection.ssh_command")
    yield "public ip", at(item, "connection.public_ip")
    yield "private ip", at(item, "connection.private_ip")


def _money(item: Json) -> Iterable[tuple[str, object]]:
    currency = at(item, "cost.currency") or "USD"
    yield "cost so far", money(at(item, "cost.accrued"), currency)
    yield "rate", money(at(item, "cost.rate_per_hour") or at(item, "placement.price_per_hour"), f"{currency} per hour")


def _times(item: Json) -> Iterable[tuple[str, object]]:
    for name in ("created_at", "ready_at", "expires_at", "release_requested_at", "ended_at"):
        yield name.removesuffix("_at").replace("_", " "), since(item.get(name))


def _rest(item: Json) -> Iterable[tuple[str, object]]:
    yield "interruption", interruption(item)
    yield "attempts", item.get("attempts_count")
    yield "labels", item.get("labels")


CANDIDATES: Columns = (
    ("#", "rank"),
    ("WHERE", lambda item: offering(item.get("offering") or item)),
    ("GPUS", lambda item: gpus(item.get("offering") or item)),
    ("USD/H", lambda item: at(item.get("offering") or item, "price_per_hour")),
    ("EXCLUDED", lambda item: item.get("excluded") or item.get("reason") or item.get("reason_code")),
)


def plan(document: Json) -> RenderableType:
    """The ranked candidates, then the other results of the plan."""
    rest = fields({name: value for name, value in document.items() if name != "candidates"})
    return Group(table(CANDIDATES, _candidates(document)), Text(), rest)


def plan_sheet(document: Json) -> Sheet:
    """The ranked candidates alone."""
    return Sheet(CANDIDATES, _candidates(document))


def _candidates(document: Json) -> list[Json]:
    return [{"rank": number, **item} for number, item in enumerate(document.get("candidates") or [], 1)]
