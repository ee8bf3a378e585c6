"""`gpulease reservations`: capacity that the operators bought ahead."""

from app.cli.errors import Json
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, at, when
from app.cli.session import Session


def _free(item: Json) -> str | None:
    """`2 of 8`; None without a fixed number."""
    return None if item.get("slots") is None else f"{item.get('free')} of {item['slots']}"


def _status(item: Json) -> str:
    return " ".join(str(part) for part in (at(item, "status"), at(item, "reason")) if part)


COLUMNS: Columns = (
    ("NAME", "name"),
    ("TYPE", "instance_type"),
    ("ZONE", "zone"),
    ("FREE", _free),
    ("LEASES UNTIL", when("latest_expires_at")),
    ("STATUS", _status),
)
LAYOUT = Layout(("NAME", "TYPE", "FREE", "STATUS", "LEASES UNTIL", "ZONE"), wrap={"STATUS": 12, "NAME": 16})


def reservations(session: Session) -> None:
    """List the reservations that leases can use with --market reserved."""
    session.items(
        session.api().get("/v1/reservations"), COLUMNS, none="no reservation that this key may use", layout=LAYOUT
    )
