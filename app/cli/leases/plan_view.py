"""Terminal output of `lease plan`, and the summary that `lease create` asks about."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from app.cli.errors import Json
from app.cli.render import times
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, at, details, price, rounded
from app.cli.render.sheet import Sheet
from app.cli.render.texts import exclusion_text, gpus, location, not_included, quota_text

if TYPE_CHECKING:
    from app.cli.client import Api

PATH = "/v1/leases/plan"
TOP = 10
"Candidates and reasons shown without --all."
_PAGE = 200
_SCREEN = 23
"Lines of a usual terminal, without the shell's next prompt."

CANDIDATES: Columns = (
    ("#", "rank"),
    ("TYPE", "offering.instance_type"),
    ("LOCATION", lambda item: location(item.get("offering"))),
    ("MARKET", "offering.market"),
    ("GPUS", lambda item: gpus(item.get("offering"))),
    ("USD/H", price("offering.price_per_hour")),
    ("TOTAL USD", price("price_for_term")),
    ("ACCOUNT", "offering.account"),
)
CANDIDATES_LAYOUT = Layout(
    ("#", "TYPE", "LOCATION", "USD/H", "MARKET", "TOTAL USD", "GPUS", "ACCOUNT"),
    right=frozenset({"#", "USD/H", "TOTAL USD"}),
)

_REASONS: Columns = (("EXCLUDED BECAUSE", "reason"), ("OFFERINGS", "offerings"))
_EXCLUDED: Columns = (
    ("EXCLUDED", "offering.instance_type"),
    ("LOCATION", lambda item: location(item.get("offering"))),
    ("MARKET", "offering.market"),
    ("BECAUSE", lambda item: item.get("detail") or exclusion_text(item.get("code"))),
)
_EXCLUDED_LAYOUT = Layout(("EXCLUDED", "BECAUSE", "LOCATION", "MARKET"), wrap={"BECAUSE": 20})


def whole(api: "Api", body: Json, path: str = PATH) -> Json:
    """The plan of a lease or a group with every candidate and every excluded offering, read in pages."""
    document = api.post(path, body, {"limit": _PAGE})
    counts = {name: document.get(f"{name}_count") or 0 for name in ("candidates", "excluded")}
    for skip in range(_PAGE, max(counts.values()), _PAGE):
        page = api.post(path, body, {"limit": _PAGE, "skip": skip})
        for name in counts:
            document[name] += page[name]
    return document


def plan(document: Json, term_seconds: int, *, every: bool) -> RenderableType:
    """Cost and quota, the first candidates, and the excluded offerings by reason. `every`: all of both."""
    facts = [fact for fact in _facts(document, term_seconds) if fact[1]]
    parts: list[RenderableType] = [details(facts)]
    candidates = document.get("candidates") or []
    visible = candidates if every else candidates[:TOP]
    if visible:
        parts += [Text(), _candidates(document, visible)]
    more = document.get("candidates_count", len(candidates)) - len(visible)
    if more > 0:
        parts.append(Text(f"{more} more candidates: --all shows them", "dim"))
    if document.get("excluded"):
        used = len(facts) + len(visible) + 3
        parts += [Text(), *_excluded(document, every=every, room=_SCREEN - used - 3)]
    return Group(*parts)


def _candidates(document: Json, visible: Sequence[Json]) -> FittedTable:
    """Prices of a group's candidates are those of each member."""
    if "size" not in document:
        return FittedTable(CANDIDATES, visible, CANDIDATES_LAYOUT)
    named = {title: f"{title} EACH" for title in ("USD/H", "TOTAL USD")}
    columns = tuple((named.get(title, title), value) for title, value in CANDIDATES)
    order = [named.get(title, title) for title in CANDIDATES_LAYOUT.priority]
    return FittedTable(columns, visible, Layout(order, right=frozenset({"#", *named.values()})))


def sheet(document: Json) -> Sheet:
    """The ranked candidates alone."""
    return Sheet(CANDIDATES, document.get("candidates") or ())


def offer(document: Json, term_seconds: int) -> RenderableType:
    """What a create would start with: instance type, location, price and total for the term."""
    first, *others = document["candidates"]
    prices = [float(price) for other in others if (price := at(other, "offering.price_per_hour")) is not None]
    upto = f", up to {rounded(max(prices))} USD/h" if prices else ""
    each = " each" if upto and document.get("size") else ""
    return details(
        [
            ("instance type", f"{at(first, 'offering.instance_type')} ({gpus(first['offering'])})"),
            ("location", location(first["offering"])),
            ("market", at(first, "offering.market")),
            ("members", _members(document)),
            ("price", _per_hour(document)),
            ("total", _total(document, term_seconds)),
            ("disks", disks(first)),
            ("not included", not_included(document.get("cost"))),
            ("if unavailable", f"{len(others)} other offerings{upto}{each}" if others else None),
            ("quota", None if at(document, "quota.fits") else quota(document)),
            ("budget", budget(document, only_exceeded=True)),
            ("note", _note(document)),
        ]
    )


def _facts(document: Json, term_seconds: int) -> Iterable[tuple[str, object]]:
    cost = [_per_hour(document), _total(document, term_seconds)]
    yield "members", _members(document)
    yield "cost", ", ".join(part for part in cost if part) or None
    yield "not included", not_included(document.get("cost")) if any(cost) else None
    yield "quota", quota(document)
    yield "budget", budget(document)
    yield "note", _note(document)
    yield "catalogue", document.get("catalogue_error")


def _members(document: Json) -> str | None:
    """`4 at 21.96 USD/h each`. None for a lease."""
    each = rounded(at(document, "member_cost.price_per_hour"))
    return f"{document['size']} at {each} USD/h each" if each else None


def _per_hour(document: Json) -> str | None:
    per_hour = rounded(at(document, "cost.price_per_hour"))
    return f"{per_hour} {at(document, 'cost.currency') or 'USD'}/h" if per_hour else None


def disks(candidate: Json) -> str | None:
    """`75 GiB billed`: of all network disks, which can exceed the requested size."""
    size = candidate.get("disk_gib")
    return None if size is None else f"{size} GiB billed"


def _total(document: Json, term_seconds: int) -> str | None:
    total = rounded(at(document, "cost.price_for_term"))
    if total is None:
        return None
    return f"{total} {at(document, 'cost.currency') or 'USD'} for {times.duration(term_seconds)}"


def quota(document: Json) -> str | None:
    """The resources that do not fit, or the one that is closest to its limit."""
    resources = at(document, "quota.resources") or []
    short = [quota_text(need) for need in resources if not need.get("fits")]
    if short:
        return f"exceeded: {'; '.join(short)}"
    limited = [quota_text(need) for need in resources if need.get("limit") is not None]
    return limited[0] if limited else None


def budget(document: Json, *, only_exceeded: bool = False) -> str | None:
    """The budgets that have no room for the lease, or the one with the least room."""
    needs = document.get("budgets") or []
    short = [_budget_text(need) for need in needs if not need["fits"]]
    if short:
        return f"exceeded: {'; '.join(short)}"
    least = min(needs, key=_available, default=None)
    return None if least is None or only_exceeded else _budget_text(least)


def _budget_text(need: Json) -> str:
    """`budget_01: 175.68 USD requested, 50.00 of 100.00 available`."""
    amounts = [rounded(value) for value in (need["asked"], _available(need), need["amount"])]
    return "{}: {} USD requested, {} of {} available".format(need["budget_id"], *amounts)


def _available(need: Json) -> Decimal:
    return max(Decimal(need["amount"]) - Decimal(need["spent"]) - Decimal(need["committed"]), Decimal(0))


def _note(document: Json) -> str | None:
    if document.get("launches_stopped"):
        return "operators have stopped launches: the lease would wait"
    if not document.get("candidates"):
        return "no offering fits this request"
    return None


def _excluded(document: Json, *, every: bool, room: int) -> Iterable[RenderableType]:
    if every:
        yield FittedTable(_EXCLUDED, document["excluded"], _EXCLUDED_LAYOUT)
        return
    groups = document["excluded_by_reason"]
    rows = [{"reason": exclusion_text(group["code"]), "offerings": group["count"]} for group in groups]
    visible = rows if len(rows) <= room else rows[: max(room - 1, 1)]
    yield FittedTable(_REASONS, visible, Layout(right=frozenset({"OFFERINGS"})))
    if len(visible) < len(rows):
        rest = sum(group["count"] for group in groups[len(visible) :])
        yield Text(f"{len(rows) - len(visible)} more reasons, {rest} offerings: --all shows them", "dim")
    else:
        yield Text("--all shows each offering", "dim")
