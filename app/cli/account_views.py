"""Terminal output of cloud accounts, their regions and their cordons, for operators."""

from rich.console import RenderableType

from app.cli.errors import Json
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, DualValue, details, since, when
from app.cli.render.texts import error_text


def _listed(account: Json) -> str:
    regions = account.get("regions") or []
    listed = [str(region["last_complete_listing_at"]) for region in regions if region.get("last_complete_listing_at")]
    return f"{len(listed)} of {len(regions)} listed" + (f", the oldest {since(min(listed))}" if listed else "")


def _account_error(account: Json) -> str | None:
    """The error of the account, else why its offerings cannot be read or launches are blocked, else that of a region."""
    if account.get("last_error"):
        return error_text(account["last_error"])
    unread = [region for region in account.get("regions") or () if region.get("catalogue_error")]
    if unread:
        return f"{unread[0]['region']}: {unread[0]['catalogue_error']}"
    blocked = [region for region in account.get("regions") or () if region.get("blocked")]
    if blocked:
        return f"{blocked[0]['region']}: blocked: {error_text(blocked[0]['blocked'])}"
    failed = [region for region in account.get("regions") or () if region.get("last_error")]
    return f"{failed[0]['region']}: {error_text(failed[0]['last_error'])}" if failed else None


def _state(account: Json) -> str:
    """`failing (catalogue)` says more to people than the API's word."""
    state = str(account.get("state"))
    return "failing (catalogue)" if state == "failing_catalogue" else state


def _cordon(account: Json) -> str | None:
    brake = account.get("cordoned")
    if not brake:
        return "draining" if account.get("draining") else None
    return _set_by(brake)


def _set_by(brake: Json) -> str:
    note = f": {brake['note']}" if brake.get("note") else ""
    return f"{since(brake.get('since')) or 'yes'} by {brake.get('by')}{note}"


def _offering_cordons(region: Json) -> str | None:
    """`p5.48xlarge, us-east-1a, every market, 2 h ago by key_…: bad image`, for each cordon of the region's offerings."""
    return "; ".join(map(_offering_cordon, region.get("cordons") or ())) or None


def _offering_cordon(cordon: Json) -> str:
    kinds = {"instance_type": "type", "zone": "zone", "market": "market"}
    covered = (str(cordon.get(name) or f"every {kind}") for name, kind in kinds.items())
    return f"{', '.join(covered)}, {_set_by(cordon)}"


def cordoned(account: Json, region: str | None = None) -> RenderableType:
    """What a change of an account's cordon, or of those of a region's offerings, led to."""
    state = _cordon(account)
    if region is not None:
        cordons = (_offering_cordons(row) for row in account.get("regions") or () if row.get("region") == region)
        return details(
            [
                ("account", account.get("name")),
                ("region", region),
                ("cordoned offerings", next(cordons, None) or "none"),
            ]
        )
    return details(
        [
            ("account", account.get("name")),
            ("launches", f"cordoned {state}" if account.get("cordoned") else state or "allowed"),
            ("state", _state(account)),
            ("regions", _listed(account)),
        ]
    )


ACCOUNTS: Columns = (
    ("NAME", "name"),
    ("PROVIDER", "provider"),
    ("STATE", DualValue(_state, "state")),
    ("VMS", lambda account: sum(region.get("listed") or 0 for region in account.get("regions") or ())),
    ("REGIONS", _listed),
    ("FAILED CHECKS", "failed_checks"),
    ("BRAKES", lambda account: ", ".join(account.get("brakes") or ()) or None),
    ("CORDON", _cordon),
    ("ERROR", _account_error),
    ("IDENTITY", "identity"),
    ("CHECKED", when("checked_at")),
)
ACCOUNTS_LAYOUT = Layout(
    (
        "NAME",
        "STATE",
        "BRAKES",
        "ERROR",
        "CORDON",
        "REGIONS",
        "VMS",
        "PROVIDER",
        "FAILED CHECKS",
        "CHECKED",
        "IDENTITY",
    ),
    wrap={"ERROR": 20, "CORDON": 12},
    right=frozenset({"VMS"}),
)

REGIONS: Columns = (
    ("ACCOUNT", "account"),
    ("REGION", "region"),
    ("VMS", "listed"),
    ("LISTED", when("last_complete_listing_at")),
    ("ERROR", lambda region: error_text(region["last_error"]) if region.get("last_error") else None),
    ("BLOCKED", lambda region: error_text(region["blocked"]) if region.get("blocked") else None),
    ("CORDONED OFFERINGS", _offering_cordons),
    ("CALLS", "listing_calls"),
    ("SECONDS", "listing_seconds"),
)
REGIONS_LAYOUT = Layout(
    ("ACCOUNT", "REGION", "VMS", "LISTED", "BLOCKED", "CORDONED OFFERINGS", "ERROR", "CALLS", "SECONDS"),
    wrap={"ERROR": 20, "BLOCKED": 20, "CORDONED OFFERINGS": 20},
    right=frozenset({"VMS"}),
)


def regions(page: Json) -> Json:
    """The regions of all accounts as a list of their own."""
    items = [{"account": account.get("name"), **region} for account in page["items"] for region in account["regions"]]
    return {"items": items, "next_cursor": None}
