"""Events and audit entries in words."""

from collections.abc import Callable, Iterator, Mapping

from app.cli.errors import Json
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, DualValue, at, when, words
from app.cli.render.texts import amount, error_text, placement, reason_text

_PLACEMENT_FIELDS = frozenset({"provider", "account", "region", "zone", "instance_type", "market", "price_per_hour"})
_NOT_SHOWN = frozenset({"reservation", "keys"})


def event_text(event: Json) -> str:
    """The event's data in words, such as `try 2, aws us-east-1a g5.xlarge spot`. Empty without data."""
    data = {name: value for name, value in (event.get("data") or {}).items() if value is not None}
    return ", ".join(_parts(data))


def _parts(data: Mapping[str, object]) -> Iterator[str]:
    rest = {name: value for name, value in data.items() if name not in _NOT_SHOWN}
    if "n" in rest:
        yield f"try {rest.pop('n')}"
    offering = rest.pop("offering", None)
    if offering is None and "instance_type" in rest:
        offering = {name: rest.pop(name) for name in tuple(rest) if name in _PLACEMENT_FIELDS}
    if offering is not None:
        yield placement(offering) or words(offering)
        price = at(offering, "price_per_hour")
        if price is not None:
            yield f"{amount(price)} USD/h"
    for name, value in rest.items():
        yield _fact(name, value)


def _fact(name: str, value: object) -> str:
    if name == "error":
        return error_text(value)
    if name == "reason":
        return reason_text(value)
    if name == "findings" and isinstance(value, list):
        return "; ".join(str(at(finding, "message") or words(finding)) for finding in value) or "no findings"
    if name == "instance_id":
        return str(value)
    if name.endswith("_at"):
        return f"{name.removesuffix('_at').replace('_', ' ')} {value}"
    return f"{name.replace('_', ' ')} {words(value)}"


EVENTS: Columns = (
    ("SEQUENCE", "sequence"),
    ("WHEN", when("created_at")),
    ("TYPE", "type"),
    ("LEASE", "lease_id"),
    ("WHAT", event_text),
)
EVENTS_LAYOUT = Layout(("TYPE", "WHEN", "WHAT", "LEASE", "SEQUENCE"), wrap={"WHAT": 24})

LEASE_EVENTS: Columns = tuple(column for column in EVENTS if column[0] != "LEASE")
LEASE_EVENTS_LAYOUT = Layout(("TYPE", "WHEN", "WHAT", "SEQUENCE"), wrap={"WHAT": 24})


def event_line(event: Json) -> str:
    """One event on one line, for `events tail`."""
    parts = (event.get("created_at"), event.get("type"), event.get("lease_id"), event_text(event))
    return "  ".join(str(part) for part in parts if part)


def change_text(entry: Json) -> str:
    """What an audit entry changed: `limit 8 → 16` for changed values, else the new values."""
    before, after = _flat(entry.get("before")), _flat(entry.get("after"))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(_change(name, before.get(name), after.get(name)) for name in names)


def _change(name: str, old: object, new: object) -> str:
    title = name.replace("_", " ")
    if old is None:
        return f"{title} {words(new)}"
    return f"{title} {words(old)} → {words(new)}"


def _flat(document: object, prefix: str = "") -> dict[str, object]:
    """Nested values under dotted names, without null and empty ones."""
    flattened: dict[str, object] = {}
    for name, value in document.items() if isinstance(document, dict) else ():
        if isinstance(value, dict):
            flattened |= _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            flattened[prefix + name] = value
    return flattened


def _named(member: str) -> Callable[[Json], str | None]:
    """`train-1 (lease_…)`: the name of what a member names by id."""

    def text(entry: Json) -> str | None:
        name, reference = entry.get(f"{member}_name"), entry.get(member)
        return f"{name} ({reference})" if name and reference else reference

    return text


AUDIT: Columns = (
    ("WHEN", when("created_at")),
    ("ACTION", "action"),
    ("TARGET", DualValue(_named("target"), "target")),
    ("BY", DualValue(_named("principal"), "principal")),
    ("ROLE", "role"),
    ("CHANGE", change_text),
    ("ADDRESS", "address"),
    ("REQUEST", "request_id"),
    ("TENANT", "tenant_id"),
)
AUDIT_LAYOUT = Layout(
    ("WHEN", "ACTION", "TARGET", "BY", "ROLE", "CHANGE", "ADDRESS", "TENANT", "REQUEST"), wrap={"CHANGE": 30}
)
