"""`gpulease quote`: a price that is kept for some minutes."""

from typing import TYPE_CHECKING

from app.cli.leases import plan_view
from app.cli.leases.request import LeaseOptions, for_tenant, request_body
from app.cli.render import output
from app.cli.render.output import at, rounded
from app.cli.render.sheet import Sheet
from app.cli.render.texts import gpus, location
from app.cli.session import Session

if TYPE_CHECKING:
    from rich.table import Table

    from app.cli.errors import Json

PATH = "/v1/quotes"

_COLUMNS: output.Columns = (
    ("ID", "id"),
    ("USD/H", "price_per_hour"),
    ("TOTAL USD", "total"),
    ("VALID UNTIL", "valid_until"),
)


def quote(session: Session, options: LeaseOptions) -> None:
    """Get a price for a lease that holds for 15 minutes. Creates no lease.

    `gpulease lease create --quote ID` creates the lease. It starts nowhere at a higher price per hour.
    """
    api = session.api(operator=options.tenant is not None)
    body = for_tenant(api, request_body(options), options.tenant)
    document = api.create(PATH, body)
    session.answer(document, view, lambda seen: Sheet(_COLUMNS, (seen,)))


def view(document: "Json") -> "Table":
    """The price, its end, and the first choice."""
    candidates: list[Json] = at(document, "plan.candidates") or []
    offering = candidates[0].get("offering") if candidates else None
    currency = document.get("currency") or "USD"
    total = rounded(document.get("total"), up=True)
    return output.details(
        [
            ("quote", document.get("id")),
            ("price", f"at most {rounded(document.get('price_per_hour'), up=True)} {currency}/h"),
            ("total", total and f"{total} {currency} for the term"),
            ("disks", plan_view.disks(candidates[0]) if candidates else None),
            ("valid until", f"{document.get('valid_until')} ({output.since(document.get('valid_until'))})"),
            ("first choice", " ".join(filter(None, (at(offering, "instance_type"), location(offering))))),
            ("gpus", gpus(offering)),
            ("quota", plan_view.quota(at(document, "plan") or {})),
        ]
    )
