"""`gpulease gpus --leased`: the GPUs that are paid for, and what each one does."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from app.cli.errors import Json
from app.cli.gpus import use
from app.cli.render import output, sheet
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, rounded
from app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

LEASES: Columns = (
    ("LEASE", "name"),
    ("MODEL", "gpu_model"),
    ("GPUS", lambda item: len(item["gpus"])),
    ("GPU BY GPU %", lambda item: use.each_percent(item["gpus"])),
    ("HEALTH", use.health_status),
    ("STATE", "state"),
    ("ID", "lease_id"),
)
LAYOUT = Layout(
    ("LEASE", "GPU BY GPU %", "MODEL", "HEALTH", "GPUS", "STATE", "ID"),
    wrap={"LEASE": 12, "GPU BY GPU %": 12},
    right=frozenset({"GPUS"}),
)
EACH: Columns = tuple(
    (name.upper(), name) for name in ("lease_id", "name", "gpu_model", "gpu", "gpu_percent", "health", "state")
)
"A row for each GPU, for programs."


def leased(session: Session) -> None:
    """Prints how many GPUs are paid for, in use, idle and unknown, and each GPU of each lease."""
    session.answer(session.api().get("/v1/metrics/fleet"), _fleet, _each)


def _fleet(fleet: Json) -> "RenderableType":
    facts = output.details(
        [
            ("paid for", _gpus(fleet.get("gpus_paid"))),
            ("in use", _gpus(fleet.get("gpus_in_use"))),
            ("idle", _gpus(fleet.get("gpus_idle"))),
            ("unknown", _gpus(fleet.get("gpus_unknown"))),
            ("idle cost", f"{rounded(fleet.get('idle_cost_per_hour') or '0')} USD/h"),
        ]
    )
    leases: Sequence[Json] = fleet.get("leases") or ()
    return Group(facts, Text(), FittedTable(LEASES, leases, LAYOUT)) if leases else facts


def _gpus(number: object) -> str:
    return f"{number} GPU{'' if number == 1 else 's'}"


def _each(fleet: Json) -> sheet.Sheet:
    rows = [
        {**lease, "gpu": place, "gpu_percent": value}
        for lease in fleet.get("leases") or ()
        for place, value in enumerate(lease["gpus"])
    ]
    return sheet.Sheet(EACH, rows)
