"""Where a lease or a group stands, in words."""

from rich.text import Text

from app.cli.errors import Json
from app.cli.render.output import printable, since
from app.cli.render.texts import error_text, reason_text

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


def reason(item: Json) -> str | None:
    """`code: message` of the lease's reason."""
    return reason_text(item["reason"]) if item.get("reason") else None


def refusal(attempt: Json) -> str | None:
    """The attempt's error in words."""
    return error_text(attempt["error"]) if attempt.get("error") else None


def ends(item: Json) -> bool:
    """True when the lease has ended or is ending: it accepts no login and does not expire."""
    return bool(item.get("terminal")) or item.get("state") == "releasing"


def expires(item: Json) -> str | None:
    """When the lease ends by its expiry or its spend cap, relative to now. None for a lease that ends already."""
    return None if ends(item) else since(item.get("ends_at") or item.get("expires_at"))
