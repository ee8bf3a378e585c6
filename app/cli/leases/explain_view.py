"""Terminal output of `lease explain`."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from app.cli.errors import Json
from app.cli.render import states, times
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, DualValue, at, cell, details, price, printable, since
from app.cli.render.sheet import Sheet
from app.cli.render.texts import placement


def _message(candidate: Json) -> str:
    until = since(candidate.get("cool_off_until"))
    return f"{candidate.get('message')}" + (f"; ends {until}" if until else "")


CANDIDATES: Columns = (
    ("CANDIDATE", lambda candidate: placement(candidate.get("offering"))),
    ("USD/H", price("offering.price_per_hour")),
    ("VERDICT", DualValue(_message, "verdict")),
)

_SHEET: Columns = (
    ("CANDIDATE", lambda candidate: placement(candidate.get("offering"))),
    ("USD/H", price("offering.price_per_hour")),
    ("VERDICT", "verdict"),
    ("MESSAGE", "message"),
    ("COOL-OFF UNTIL", "cool_off_until"),
    ("LAST ERROR", lambda candidate: states.refusal(candidate.get("last_attempt") or {})),
)

_QUOTA: Columns = (
    ("QUOTA", "resource"),
    ("NEEDED", "needed"),
    ("FREE", lambda need: need.get("free") or "any"),
    ("LIMIT", lambda need: need.get("limit") or "none"),
)

_SUGGESTIONS: Columns = (
    ("WOULD FIT NOW", "message"),
    ("OFFERING", lambda suggestion: placement(suggestion.get("offering"))),
    ("USD/H", price("offering.price_per_hour")),
)


def explanation(document: Json) -> RenderableType:
    """The sentence, the times, then tables of candidates, exclusions, missing quota and suggestions."""
    parts: list[RenderableType] = [Text(printable(str(document.get("summary"))), "bold"), details(_facts(document))]
    for columns, items in (
        (CANDIDATES, document.get("candidates")),
        (_QUOTA, [need for need in document.get("quota") or () if not need.get("fits")]),
        (_SUGGESTIONS, document.get("suggestions")),
    ):
        if items:
            parts += [
                Text(),
                FittedTable(columns, items, Layout(wrap=dict.fromkeys((title for title, _ in columns), 16))),
            ]
    if document.get("excluded"):
        parts += [Text(), *map(_excluded, document["excluded"])]
    return Group(*parts)


def sheet(document: Json) -> Sheet:
    """The candidates alone."""
    return Sheet(_SHEET, document.get("candidates") or ())


def _facts(document: Json) -> Iterable[tuple[str, object]]:
    yield "state", states.state(document)
    yield "since", since(document.get("since"))
    yield "next try", _ahead(document.get("next_try_at"))
    yield "gives up", _ahead(document.get("gives_up_at"))
    seconds = document.get("typical_ready_seconds")
    yield "usually ready after", times.duration(seconds) if seconds else None
    yield "position", _position(document.get("queue"))
    count, number = len(document.get("candidates") or ()), document.get("candidates_count") or 0
    yield "candidates", f"the best {count} of {number}" if number > count else None


def _ahead(moment: str | None) -> str | None:
    """A time that was planned. gpulease acts a moment after it, so a passed one is now."""
    when = times.parse_time(moment)
    return "now" if when is not None and when <= times.now() else since(moment)


def _position(queue: Json | None) -> str | None:
    if not queue:
        return None
    own = f"{queue['position_in_tenant']} of {queue['waiting_in_tenant']} in this tenant"
    return f"{queue['position']} of {queue['waiting']} queued leases by next try, {own}"


def _excluded(group: Json) -> Text:
    nearest, price = group.get("nearest") or {}, at(group, "nearest.price_per_hour")
    cost = f" at {price} USD/h" if price else ""
    where = f"{placement(nearest)}{cost}"
    return cell(f"{group.get('message')}; nearest: {where} ({group.get('nearest_detail')})")
