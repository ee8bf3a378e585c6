"""`gpulease lease release`: one lease, several, those with a label, or all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completion, lookup, values
from app.cli.errors import Json
from app.cli.leases import views, watch
from app.cli.paths import path_of
from app.cli.render import states
from app.cli.render.output import Columns, rounded
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

_PATH = "/v1/leases"
_BATCH = 100
"Leases in one request."
_RELEASED: Columns = (("ID", "id"), ("NAME", "name"), ("STATE", "state"), ("RELEASED", "released"))


@dataclass(frozen=True)
class Selection:
    """Which leases to release: named ones, those with labels, or all."""

    leases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LEASE...", help="Ids, or unique names of leases.", autocompletion=completion.live_leases
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Release the leases with this label; repeatable: with all of these labels."
        ),
    ] = None
    every: Annotated[bool, typer.Option("--all", help="Release all leases of the tenant.")] = False

    def check(self) -> None:
        """Raises BadParameter unless exactly one of the three is given."""
        if sum((bool(self.leases), bool(self.label), self.every)) != 1:
            raise typer.BadParameter("give leases, --label or --all")

    @property
    def single(self) -> str | None:
        """The only named lease."""
        return self.leases[0] if self.leases and len(self.leases) == 1 else None

    def find(self, api: "Api") -> list[Json]:
        """The leases, without those that are ending already."""
        if self.leases:
            ids = dict.fromkeys(lookup.lease_id(api, reference) for reference in self.leases)
            leases = [api.get(path_of(_PATH, lease_id)) for lease_id in ids]
        else:
            labels = [f"{key}:{value}" for key, value in values.pairs(self.label or (), what="KEY=VALUE").items()]
            leases = api.page(_PATH, {"state": ["!terminal"], "label": labels or None})["items"]
        return [lease for lease in leases if not states.ends(lease)]


@dataclass(frozen=True)
class WatchOptions:
    """Whether to watch the end of the lease, and what to show."""

    follow: Annotated[
        bool, typer.Option("--watch", "--follow", help="Watch until the lease has ended. For one lease.")
    ] = False
    timeout: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION", parser=values.seconds, help="Stop watching after this time, with exit code 1."
        ),
    ] = None
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show the whole lease, if it is the only one.")
    ] = False


def release(
    session: Session,
    selection: Selection,
    following: WatchOptions,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Release without a question.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the leases, and release none.")] = False,
) -> None:
    """Release leases in any state. Repeating the command has no effect.

    --label and --all ask on a terminal; without a terminal they need --yes.
    """
    selection.check()
    if following.follow:
        session.refuse_csv("a watch")
        if selection.single is None:
            raise typer.BadParameter("--watch takes one lease")
    asks = not (selection.leases or yes or dry_run)
    if asks and not session.interactive:
        raise typer.BadParameter("--label and --all need --yes without a terminal")
    api = session.api()
    if selection.single and not dry_run:
        _release_one(session, api, selection.single, following)
        return
    leases = selection.find(api)
    if dry_run or not leases:
        page: Json = {"items": leases, "next_cursor": None}
        session.items(page, views.LEASES, none="no leases to release", layout=views.LEASES_LAYOUT)
        return
    if asks:
        session.table(views.LEASES, leases, views.LEASES_LAYOUT)
        session.confirm(_question(leases))
    _release_all(session, api, [str(lease["id"]) for lease in leases])


def _release_one(session: Session, api: "Api", reference: str, following: WatchOptions) -> None:
    lease_id = lookup.lease_id(api, reference)
    document = api.delete(path_of(_PATH, lease_id))
    if following.follow:
        raise typer.Exit(watch.follow(session, api, lease_id, until="terminal", timeout=following.timeout))
    session.answer_fact(document, views.released(document), views.lease if following.verbose else None, views.sheet)


def _question(leases: Sequence[Json]) -> str:
    noun = "1 lease" if len(leases) == 1 else f"{len(leases)} leases"
    prices = [float(price) for lease in leases if lease.get("placement") and (price := views.price_now(lease))]
    cost = f" ({rounded(sum(prices))} USD/h)" if prices else ""
    return f"Release {noun}{cost}?"


def _release_all(session: Session, api: "Api", ids: Sequence[str]) -> None:
    items: list[Json] = []
    for start in range(0, len(ids), _BATCH):
        items += api.create(f"{_PATH}/release", {"ids": list(ids[start : start + _BATCH])})["items"]
    if session.as_json or session.as_csv:
        session.items({"items": items, "next_cursor": None}, _RELEASED, none="no leases to release")
    count = sum(item["released"] for item in items)
    session.note(f"{count} leases are being released" if count != 1 else "1 lease is being released")
    if count < len(ids):
        session.note(f"{len(ids) - count} ended meanwhile")
