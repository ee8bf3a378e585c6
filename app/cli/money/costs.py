"""`gpulease costs` and `gpulease forecast`: what leases cost, and what the present ones will cost."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group
from rich.text import Text

from app.cli import lookup, values
from app.cli.errors import CliError
from app.cli.render import output
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, price, rounded
from app.cli.render.sheet import Sheet
from app.cli.render.texts import amount
from app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from app.cli.errors import Json

_START_LENGTH = {"month": 7, "day": 10, "hour": 16}
"How many characters of an RFC 3339 time distinguish the buckets of a step."

_AMOUNTS: Columns = (
    ("COST USD", price("cost")),
    ("COMPUTE", price("compute")),
    ("DISK", price("disk")),
    ("ADDRESS", price("address")),
    ("LIST USD", price("list_cost")),
    ("SAVINGS", price("savings")),
    ("GPU HOURS", price("gpu_hours")),
    ("IDLE", price("idle_gpu_hours")),
    ("IDLE USD", price("idle_cost")),
    ("LEASES", output.DualValue(lambda item: amount(item["leases"]) if "leases" in item else None, "leases")),
)
_PRIORITY = ("COST USD", "SAVINGS", "GPU HOURS", "IDLE", "IDLE USD", "LEASES", "LIST USD", "COMPUTE", "DISK", "ADDRESS")

EXHAUSTED: Columns = (("BUDGET", "id"), ("EXHAUSTED", output.when("exhausted_at")), ("AT", "exhausted_at"))

Tenant = Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")]


@dataclass(frozen=True)
class Range:
    """Which costs to add up, and how."""

    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", parser=values.day_or_past, help="2026-11-01 (UTC), 7d (ago) or an RFC 3339 time."
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", parser=values.day_or_past, help="End of the range, as --from. Default: now."
        ),
    ] = None
    bucket: Annotated[Literal["hour", "day", "month"], typer.Option(help="Length of a line's time.")] = "day"
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD[,FIELD]",
            help="Up to two of tenant, provider, region, gpu_model, market, instance_type, lease and label:KEY.",
        ),
    ] = None

    @property
    def groups(self) -> list[str]:
        """The fields of `--by`, in order."""
        return [name.strip() for name in (self.by or "").split(",") if name.strip()]

    def params(self) -> "Json":
        """As query parameters."""
        return {
            "from": self.since,
            "to": self.until,
            "bucket": self.bucket,
            "group_by": ",".join(self.groups) or None,
        }


def costs(
    session: Session,
    chosen: Range,
    *,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of lines; 0: all.")] = 0,
) -> None:
    """Show the cost of leases over time, in USD.

    The last line of the table is the total. --output csv and --csv print the lines without the total.
    """
    api, params = session.api(operator=tenant is not None), chosen.params()
    if tenant:
        params["tenant_id"] = lookup.tenant_id(api, tenant)
    page = api.page("/v1/costs", params, limit=limit or None)
    columns = _columns(chosen)
    if session.as_json or session.as_csv or not page["items"]:
        session.items(page, columns, none="no costs in this time")
        return
    rows = [*page["items"], {"start": None, "group": {}, **(page.get("total") or {})}]
    session.table(columns, rows, _layout(chosen))
    if page.get("next_cursor"):
        session.note(f"only the first {len(page['items'])} lines: --limit 0 shows all; the total counts all")


def forecast(session: Session, *, tenant: Tenant = None) -> None:
    """Show the run rate, the cost of this month with today's leases, and when budgets are exhausted."""
    api = session.api(operator=tenant is not None)
    params = {"tenant_id": lookup.tenant_id(api, tenant)} if tenant else None
    session.answer(api.get("/v1/forecast", params), _forecast, _forecast_sheet)


def focus(
    session: Session,
    month: Annotated[str, typer.Argument(metavar="MONTH", help="Such as 2026-11 (UTC).")],
    *,
    file: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write to this file. Default: standard output.")
    ] = None,
    tenant: Tenant = None,
) -> None:
    """Export the usage of a month as CSV in the FOCUS format of the FinOps Foundation. Needs an admin key."""
    api = session.api(operator=tenant is not None)
    params = {"month": month, "tenant_id": lookup.tenant_id(api, tenant) if tenant else None}
    content = api.download("/v1/costs/focus", params, "text/csv")
    if file is None:
        for part in content:
            sys.stdout.buffer.write(part)
        return
    unfinished = file.with_name(f"{file.name}.part")
    try:
        with unfinished.open("wb") as target:
            target.writelines(content)
        unfinished.replace(file)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _columns(chosen: Range) -> Columns:
    length = _START_LENGTH[chosen.bucket]
    start: output.ValueSource = output.DualValue(
        lambda item: str(item["start"])[:length].replace("T", " ") if item.get("start") else "total", "start"
    )
    return (("START", start), *((name.upper(), _group(name)) for name in chosen.groups), *_AMOUNTS)


def _group(name: str) -> output.ValueSource:
    return lambda item: (item.get("group") or {}).get(name)


def _layout(chosen: Range) -> Layout:
    groups = [name.upper() for name in chosen.groups]
    numbers = frozenset(title for title, _ in _AMOUNTS)
    return Layout(("START", *groups, *_PRIORITY), wrap=dict.fromkeys(groups, 12), right=numbers)


def _forecast(document: "Json") -> "RenderableType":
    month = document.get("month") or {}
    facts = output.details(
        [
            ("run rate", _usd(document.get("run_rate_per_hour"), "USD/h")),
            ("spent this month", _usd(month.get("spent"))),
            ("committed", _usd(month.get("committed"))),
            ("forecast", _usd(month.get("forecast"))),
            ("month ends", output.since(month.get("ends_at"))),
        ]
    )
    budgets = document.get("budgets") or []
    if not budgets:
        return facts
    return Group(facts, Text(), FittedTable(EXHAUSTED, budgets, Layout()))


def _forecast_sheet(document: "Json") -> Sheet:
    columns: Columns = (
        ("RUN RATE", "run_rate_per_hour"),
        *((name.upper(), f"month.{name}") for name in ("spent", "committed", "forecast", "ends_at")),
    )
    return Sheet(columns, (document,))


def _usd(value: object, unit: str = "USD") -> str | None:
    short = rounded(value)
    return None if short is None else f"{short} {unit}"
