"""Terminal output for operators: the summary and orphans."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.cli.errors import Json
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, at, details, price, printable, since, when, words
from app.cli.render.texts import amount, error_text

_SPEND: Columns = (("LEASES", "leases"), ("GPUS", "gpus"), ("USD/H", price("spend_per_hour")))
_NUMBERS = frozenset(
    {"LEASES", "GPUS", "USD/H", "FAILURES", "INTERRUPTIONS", "ORPHANS", "PROCESSES", "VIOLATIONS", "LAUNCHES", "FAILED"}
)
_LONG_WAIT = 60
_PLACE: Columns = (
    ("PROVIDER", "provider"),
    ("REGION", "region"),
    ("INSTANCE TYPE", "instance_type"),
    ("MARKET", "market"),
)
_SECTIONS: Sequence[tuple[str, str, Columns]] = (
    ("Leases by state", "by_state", (("STATE", "state"), ("LEASES", "leases"), ("GPUS", "gpus"))),
    ("By provider", "by_provider", (("PROVIDER", "name"), *_SPEND)),
    ("By region", "by_region", (("REGION", "name"), *_SPEND)),
    ("By GPU model", "by_gpu_model", (("GPU", "name"), *_SPEND)),
    ("By tenant", "by_tenant", (("TENANT", "name"), *_SPEND)),
    ("Capacity failures", "capacity_failures.worst", (*_PLACE, ("FAILURES", "failures"))),
    ("Interruptions", "interruptions.worst", (*_PLACE, ("INTERRUPTIONS", "interruptions"))),
    (
        "Refused launches",
        "refused_launches",
        (
            ("ACCOUNT", "account"),
            ("REGION", "region"),
            ("REASON", "reason"),
            ("LAUNCHES", "launches"),
            ("SINCE", when("since")),
            ("CODE", "code"),
            ("MESSAGE", "message"),
        ),
    ),
    (
        "Failed checks",
        "failed_checks",
        (
            ("ACCOUNT", "account"),
            ("FAILED", "failed"),
            ("CHECKS", lambda row: ", ".join(row.get("names") or ()) or None),
            ("CHECKED", when("checked_at")),
        ),
    ),
    (
        "Late jobs",
        "late_jobs",
        (
            ("JOB", "kind"),
            ("ACCOUNT", "account"),
            ("REGION", "region"),
            ("LAST SUCCESS", when("since")),
            ("MESSAGE", "last_error"),
        ),
    ),
    ("Orphans", "orphans", (("CAUSE", "cause"), ("ORPHANS", "orphans"))),
    (
        "Stuck leases",
        "stuck",
        (
            ("LEASE", "lease_id"),
            ("KIND", "kind"),
            ("STATE", "state"),
            ("SINCE", when("since")),
            ("ACCOUNT", "account"),
            ("REGION", "region"),
            ("REASON", "reason"),
        ),
    ),
    (
        "Processes",
        "processes",
        (("KIND", "kind"), ("PROCESSES", "processes"), ("LAST SEEN", lambda item: _seconds(item["last_seen_seconds"]))),
    ),
    (
        "Leases without a VM",
        "ghost_leases",
        (
            ("ACCOUNT", "account"),
            ("REGION", "region"),
            ("LEASES", "leases"),
            ("LAST SEEN", lambda item: _seconds(item["seconds"])),
        ),
    ),
    ("Lost hosts", "lost_hosts", (("HOST", "host"), ("KIND", "kind"))),
    (
        "Broken invariants",
        "invariants.broken",
        (("INVARIANT", "name"), ("VIOLATIONS", "violations"), ("SINCE", when("since")), ("EXAMPLES", "examples")),
    ),
)


def summary(document: Json) -> RenderableType:
    """Brakes and spend, then a table for each part that is not empty."""
    parts: list[RenderableType] = [details(_facts(document))]
    for title, path, columns in _SECTIONS:
        items = at(document, path)
        if items:
            wrap = {"EXAMPLES": 20, "REASON": 16, "MESSAGE": 20}
            parts += [Text(), Text(title, "bold"), FittedTable(columns, items, Layout(wrap=wrap, right=_NUMBERS))]
    return Group(*parts)


def _facts(document: Json) -> Iterable[tuple[str, object]]:
    yield "installation", at(document, "brakes.installation_id")
    yield "as of", since(document.get("as_of"))
    yield "brakes", "; ".join(brake_texts(document)) or "No brakes active"
    yield "spend", f"{amount(document.get('spend_per_hour') or 0)} USD/h"
    yield "spend of the month", f"{amount(document.get('spend_month_to_date') or 0)} USD"
    yield "gpus", document.get("gpus")
    yield "time to ready", ready_text(document)
    yield "capacity failures", at(document, "capacity_failures.total")
    yield "interruptions", at(document, "interruptions.total")
    yield "queue", overdue_text(document) or "No lease waits for a worker"
    yield "events", "; ".join(event_texts(document)) or "Nothing waits"
    yield "unlisted charges", document.get("unlisted_charges")
    yield "warnings", printable("; ".join(document.get("warnings") or ())) or "None"
    yield "invariants checked", since(at(document, "invariants.checked_at"))


def brake_texts(document: Json, age: Callable[[Any], str | None] = since) -> Iterable[str]:
    """The active brakes by their names, each with its place, its age and its cause."""
    for brake in document.get("active_brakes") or ():
        place = "/".join(part for part in (brake.get("account"), brake.get("region")) if part)
        what = " ".join(
            part for part in (brake["brake"], place, age(brake["since"]) if brake.get("since") else None) if part
        )
        yield printable(f"{what}: {brake['message']}" if brake.get("message") else what)


def overdue_text(document: Json) -> str | None:
    """What waits for longer than a minute: leases that no worker has claimed."""
    seconds = at(document, "overdue.seconds") or 0
    if seconds <= _LONG_WAIT:
        return None
    return f"{at(document, 'overdue.leases')} leases wait for a worker, the oldest for {seconds:.0f} s"


def event_texts(document: Json) -> Iterable[str]:
    """What waits for longer than a minute: events for their numbers, webhooks for a worker."""
    for name, text in (
        ("unnumbered_seconds", "the oldest has no number after"),
        ("webhooks_seconds", "a webhook has waited for a worker for"),
    ):
        seconds = at(document, f"events.{name}") or 0
        if seconds > _LONG_WAIT:
            yield f"{text} {seconds:.0f} s"


def ready_text(document: Json) -> str:
    """`p50 64 s, p95 -`."""
    parts = ("p50", "p95")
    return ", ".join(f"{part} {_seconds(at(document, f'time_to_ready.{part}_seconds'))}" for part in parts)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


_KNOWN_BY_TAGS = frozenset({"copied_tags", "lost_row"})


def _end(orphan: Json) -> str | None:
    if orphan.get("gone_at"):
        # a VM of which nothing is known but its tags: without them no listing shows it, and it may run on
        untagged = orphan.get("cause") in _KNOWN_BY_TAGS and not orphan.get("end_requested_at")
        return f"{'not listed since' if untagged else 'ended'} {since(orphan['gone_at'])}"
    if orphan.get("end_error"):
        return f"end rejected: {error_text(orphan['end_error'])}"
    if orphan.get("end_requested_at"):
        return "ending"
    return f"ends {since(orphan.get('end_after') or orphan.get('deadline_at')) or 'by an operator'}"


ORPHANS: Columns = (
    ("ID", "id"),
    ("INSTANCE", "instance_id"),
    ("TYPE", "instance_type"),
    ("LOCATION", lambda orphan: f"{orphan.get('account')} {orphan.get('zone') or orphan.get('region')}"),
    ("CAUSE", "cause"),
    ("STATE", "state"),
    ("END", _end),
    ("USD/H", price("price_per_hour")),
    ("COST", price("cost")),
    ("FIRST SEEN", when("first_seen_at")),
    ("LEASE", "lease_id"),
    ("ADOPTION", lambda orphan: words(orphan["adopt_error"]) if orphan.get("adopt_error") else None),
)
ORPHANS_LAYOUT = Layout(
    (
        *("ID", "TYPE", "CAUSE", "END", "COST", "LOCATION", "USD/H", "STATE", "INSTANCE", "FIRST SEEN"),
        *("LEASE", "ADOPTION"),
    ),
    wrap={"END": 16, "LOCATION": 14},
    right=frozenset({"USD/H", "COST"}),
)
