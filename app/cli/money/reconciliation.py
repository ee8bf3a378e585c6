"""`gpulease ops reconciliation`: what leases and volumes cost beside what providers charged (operators)."""

from typing import Annotated, Literal

import typer

from app.cli import lookup
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.session import Session

PATH = "/v1/ops/reconciliation"

TOTALS: output.Columns = (
    ("TENANT", lambda item: item.get("tenant_id") or "none"),
    ("LEASES", "leases"),
    ("ESTIMATED", output.price("estimated")),
    ("INVOICED", output.price("invoiced")),
    ("DIFFERENCE", output.price("difference")),
    ("WITHOUT CHARGE", "gpulease_only"),
    ("WITHOUT LEASE", "cloud_only"),
    ("UNLISTED", "unlisted"),
)
TOTALS_LAYOUT = Layout(
    ("TENANT", "ESTIMATED", "INVOICED", "DIFFERENCE", "UNLISTED", "WITHOUT LEASE", "WITHOUT CHARGE", "LEASES"),
    right=frozenset(title for title, _ in TOTALS if title != "TENANT"),
)

CHARGES: output.Columns = (
    ("KIND", "kind"),
    ("DAY", "day"),
    ("PROVIDER", "provider"),
    ("RESOURCE", "resource_id"),
    ("LEASE", lambda item: item.get("lease_id") or item.get("volume_id")),
    ("ESTIMATED", output.price("estimated")),
    ("INVOICED", output.price("invoiced")),
    ("DIFFERENCE", output.price("difference")),
    ("OURS", "ours"),
    ("TENANT", "tenant_id"),
)
CHARGES_LAYOUT = Layout(
    ("KIND", "DAY", "RESOURCE", "DIFFERENCE", "ESTIMATED", "INVOICED", "LEASE", "OURS", "PROVIDER", "TENANT"),
    wrap={"RESOURCE": 20},
    right=frozenset({"ESTIMATED", "INVOICED", "DIFFERENCE"}),
)


def reconciliation(
    session: Session,
    month: Annotated[str, typer.Argument(metavar="MONTH", help="Such as 2026-11 (UTC).")],
    *,
    charges: Annotated[bool, typer.Option("--charges", help="List resources by day instead of totals by tenant.")] = (
        False
    ),
    kind: Annotated[
        Literal["matched", "cloud_only", "gpulease_only"] | None, typer.Option(help="With --charges: only this kind.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Id or name of the tenant.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of charges; 0: all.")] = 50,
) -> None:
    """Compare what leases and volumes cost with what providers charged in a month, in USD.

    UNLISTED counts resources with this installation's tag that belong to no lease and no volume: orphans.
    """
    api = session.api(operator=True)
    owner = lookup.tenant_id(api, tenant) if tenant else None
    page = api.page(PATH, {"month": month, "kind": kind, "tenant_id": owner}, limit=limit or None)
    if charges or kind or session.as_json:
        session.items(page, CHARGES, none="no charges", layout=CHARGES_LAYOUT)
    else:
        totals = {"items": page.get("totals") or []}
        session.items(
            totals, TOTALS, none="no charges: import them with `gpulease-server reconcile`", layout=TOTALS_LAYOUT
        )
