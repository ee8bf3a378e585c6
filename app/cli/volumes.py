"""`gpulease volume`: disks that outlive leases."""

import time
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import lookup, values
from app.cli.command import command
from app.cli.errors import CliError, Json
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

group = typer.Typer(no_args_is_help=True, help="Disks that outlive leases.")

PATH = "/v1/volumes"
_LOOK_SECONDS = 1.0
_LIVE = ("creating", "available", "deleting")

VolumeReference = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a volume.")]

COLUMNS: output.Columns = (
    ("NAME", "name"),
    ("STATE", "state"),
    ("GIB", "size_gib"),
    ("ZONE", "zone"),
    ("LEASE", "lease_id"),
    ("USD/H", "price_per_hour"),
    ("ACCOUNT", "account"),
    ("LAST USED", output.when("last_used_at")),
    ("CREATED", output.when("created_at")),
    ("ID", "id"),
)


@command(group, "list")
def list_volumes(
    session: Session,
    *,
    ended: Annotated[bool, typer.Option("--ended", help="Also deleted, failed and lost volumes.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50,
) -> None:
    """List the volumes of the tenant."""
    page = session.api().page(PATH, None if ended else {"state": list(_LIVE)}, limit=limit or None)
    session.items(page, COLUMNS, none="no volumes: create one with `gpulease volume create`")


@command(group, "show")
def show(session: Session, reference: VolumeReference) -> None:
    """Show a volume."""
    api = session.api()
    session.answer(api.get(path_of(PATH, lookup.volume_id(api, reference))), output.fields)


@dataclass(frozen=True)
class VolumeOptions:
    """The fields of a new volume besides its name."""

    size: Annotated[int, typer.Option(min=1, metavar="GIB", help="Size. It does not change.")]
    account: Annotated[str, typer.Option(help="Account of `gpulease offerings`.")]
    region: Annotated[str, typer.Option(help="Region of the account.")]
    zone: Annotated[str, typer.Option(help="Zone. Leases that mount the volume run there.")]
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Repeatable.")] = None
    tenant: Annotated[str | None, typer.Option(help="Tenant to act for, by id or name (operators).")] = None


@command(group, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Unique among the tenant's volumes.")],
    options: VolumeOptions,
    *,
    wait: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION", parser=values.seconds, help="Wait so long, such as 5m, until it is available."
        ),
    ] = None,
) -> None:
    """Create a volume: an empty disk in one zone, which `gpulease lease create --volume NAME:PATH` mounts."""
    api = session.api()
    place: Json = {"account": options.account, "region": options.region, "zone": options.zone}
    body = {"name": name, "size_gib": options.size, **place}
    body |= {"labels": values.pairs(options.label, what="KEY=VALUE")} if options.label else {}
    body |= {"tenant_id": lookup.tenant_id(api, options.tenant)} if options.tenant else {}
    volume = api.create(PATH, body)
    if wait is not None:
        volume = _await_available(api, str(volume["id"]), wait)
    session.answer(volume, output.fields)


@command(group, "delete")
def delete(
    session: Session,
    reference: VolumeReference,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without a question.")] = False,
) -> None:
    """Delete a volume and all data on it. Asks on a terminal; without a terminal it needs --yes."""
    if not yes and not session.interactive:
        raise typer.BadParameter("deletes all data on the volume: add --yes")
    api = session.api()
    volume_id = lookup.volume_id(api, reference)
    if not yes:
        session.confirm(_question(api.get(path_of(PATH, volume_id))))
    session.answer(api.delete(path_of(PATH, volume_id)), output.fields)


def _question(volume: Json) -> str:
    used = output.words(volume.get("last_used_at") or "")
    last = f"lease {volume['lease_id']} uses it" if volume.get("lease_id") else f"last used {used}"
    if not volume.get("last_lease_id"):
        last = "never used"
    return (
        f"Delete the volume {output.printable(str(volume['name']))} of {volume['size_gib']} GiB ({last}) and its data?"
    )


def _await_available(api: "Api", volume_id: str, seconds: int) -> Json:
    until = time.monotonic() + seconds
    while True:
        volume = api.get(path_of(PATH, volume_id))
        if volume["state"] == "available":
            return volume
        if volume["state"] != "creating":
            reason = (volume.get("reason") or {}).get("message") or "no reason is reported"
            raise CliError(f"the volume {volume_id} is in state {volume['state']}: {reason}")
        if time.monotonic() >= until:
            raise CliError(f"the volume {volume_id} is still in state creating: `gpulease volume show {volume_id}`")
        Event().wait(_LOOK_SECONDS)
