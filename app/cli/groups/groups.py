"""`gpulease group`: leases that start together in one place, and end together."""

import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion, lookup, values
from app.cli.command import command
from app.cli.errors import FAILED, CliError
from app.cli.groups import views
from app.cli.leases.request import LeaseOptions, for_tenant, request_body
from app.cli.paths import path_of
from app.cli.render import output, states, times
from app.cli.session import Session
from app.cli.ssh import ssh as login
from app.cli.ssh.offer import ensure_login

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="Groups of leases that start together: create, scale, extend, release.")

_PATH = "/v1/groups"
_POLL_SECONDS = 2.0
_FORMED = frozenset({"active", "degraded"})
_ENDS = frozenset({"releasing", "ended"})
_PANEL = "The group"

Reference = Annotated[
    str, typer.Argument(metavar="GROUP", help="Id, or unique name of a group.", autocompletion=completion.live_groups)
]
Follow = Annotated[bool, typer.Option("--watch", "--follow", help="Report progress until the group is formed.")]
Timeout = Annotated[
    int | None,
    typer.Option(metavar="DURATION", parser=values.seconds, help="Stop watching after this time, with exit code 1."),
]


@dataclass(frozen=True)
class GroupOptions:
    """What a group has besides the request of its members."""

    size: Annotated[int, typer.Option(min=1, help="Number of members.", rich_help_panel=_PANEL)]
    min_size: Annotated[
        int | None,
        typer.Option(min=1, help="Members without which the group does not run. Default: all.", rich_help_panel=_PANEL),
    ] = None
    placement: Annotated[
        Literal["any", "same_zone", "cluster"] | None,
        typer.Option(
            help="any: one region. same_zone: one zone. cluster: close to each other in it.", rich_help_panel=_PANEL
        ),
    ] = None
    fabric: Annotated[
        Literal["none", "preferred", "required"] | None,
        typer.Option(help="Network fabric between the VMs, such as EFA or InfiniBand.", rich_help_panel=_PANEL),
    ] = None
    form_time: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="How long the members may take to be ready in one place. Default: 15m.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    on_member_loss: Annotated[
        Literal["end", "replace", "keep"] | None,
        typer.Option(help="What the loss of a member means. Default: end.", rich_help_panel=_PANEL),
    ] = None

    def fields(self) -> "Json":
        """As the API takes them."""
        options = {
            "size": self.size,
            "min_size": self.min_size,
            "placement": self.placement,
            "interconnect": self.fabric,
            "form_seconds": self.form_time,
            "on_member_loss": self.on_member_loss,
        }
        return {name: value for name, value in options.items() if value is not None}


@command(group, "create")
def create(
    session: Session,
    named: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group. Members are named NAME-0, NAME-1 …")],
    about: GroupOptions,
    options: LeaseOptions,
    *,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key returns the same group; default: a new key.")
    ] = None,
    follow: Follow = False,
    timeout: Timeout = None,
) -> None:
    """Create a group of equal leases: all start in one place, or none keeps a VM.

    With --watch, the command ends when the group is formed (exit code 0) or ends (1).
    """
    if options.name is not None:
        raise typer.BadParameter("use NAME, not --name: the members are named after the group")
    if follow:
        session.refuse_csv("a watch")
    api = session.api(operator=options.tenant is not None)
    lease = request_body(options)
    ensure_login(session, api, lease)
    body = for_tenant(api, {"name": named, **about.fields(), "lease": lease}, options.tenant)
    made = api.create(_PATH, body, idempotency_key=idempotency_key)
    if follow:
        raise typer.Exit(_follow(session, api, str(made["id"]), timeout))
    session.answer(made, views.group, views.sheet)


@command(group, "list")
def list_groups(
    session: Session,
    *,
    every: Annotated[bool, typer.Option("--all", help="Include groups that have ended.")] = False,
    tenant: Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50,
) -> None:
    """List groups that have not ended; --all includes ended groups."""
    api = session.api(operator=tenant is not None)
    params: dict[str, str] = {} if every else {"state": "!ended"}
    if tenant:
        params["tenant_id"] = lookup.tenant_id(api, tenant)
    none = "no groups" if every else "no groups (--all includes ended groups)"
    page = api.page(_PATH, params, limit=limit or None)
    session.items(page, views.GROUPS, none=none, layout=views.GROUPS_LAYOUT)


@command(group, "show")
def show(session: Session, name: Reference, *, follow: Follow = False, timeout: Timeout = None) -> None:
    """Show a group and its members by rank."""
    api = session.api()
    if follow:
        session.refuse_csv("a watch")
        raise typer.Exit(_follow(session, api, lookup.group_id(api, name), timeout))
    session.answer(api.get(_path(api, name)), views.group, views.sheet)


@command(group, "hosts")
def hosts(
    session: Session,
    name: Reference,
    *,
    written: Annotated[
        Literal["json", "hostfile", "slurm", "ansible", "torchrun"],
        typer.Option("--format", help="hostfile: for mpirun. slurm: a node list. torchrun: the command of each VM."),
    ] = "hostfile",
) -> None:
    """Print the VMs of a group in a form that launchers read."""
    api = session.api()
    path = f"{_path(api, name)}/hosts"
    if written == "json" or session.as_json:
        output.write_json(api.get(path))
        return
    for part in api.download(path, {"format": written}, "text/plain"):
        sys.stdout.write(part.decode())


@command(group, "scale")
def scale(
    session: Session,
    name: Reference,
    size: Annotated[int, typer.Argument(min=1, metavar="SIZE", help="The new number of members.")],
) -> None:
    """Change the size of a group. The last ranks join or leave."""
    api = session.api()
    session.answer(api.patch(_path(api, name), {"size": size}), views.group, views.sheet)


@command(group, "extend")
def extend(
    session: Session,
    name: Reference,
    by: values.Duration = None,
    *,
    until: values.NewEnd = None,
) -> None:
    """Extend all members of a group, or none. Afterwards no member expires before the new end."""
    body = values.extension(by, until)
    api = session.api()
    session.answer(api.post(f"{_path(api, name)}/extend", body), views.group, views.sheet)


@command(group, "release")
def release(session: Session, name: Reference) -> None:
    """Release a group and all of its members. Repeating the command has no effect."""
    api = session.api()
    session.answer(api.delete(_path(api, name)), views.group, views.sheet)


@command(group, "ssh")
def ssh(
    session: Session,
    name: Reference,
    rest: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --: further options of ssh, then a command to run on the VM."),
    ] = None,
    *,
    rank: Annotated[int, typer.Option(min=0, help="Rank of the member.")] = 0,
    identity: login.Identity = None,
    only_print: login.OnlyPrint = False,
) -> None:
    """Log in to the VM of a member, or run a command on it. The command exits with the exit code of ssh."""
    session.refuse_csv("ssh")
    api = session.api()
    members = api.get(_path(api, name)).get("members") or ()
    lease_ids = [str(member["lease_id"]) for member in members if member.get("rank") == rank]
    if not lease_ids:
        msg = f"the group {name!r} has no member of rank {rank}"
        raise CliError(msg)
    login.ssh(session, lease_ids[-1], rest, identity=identity, only_print=only_print)


def _follow(session: Session, api: "Api", group_id: str, timeout: int | None) -> int:
    """Reports changes until the group is formed, ends, or the time is up. Returns the exit code."""
    deadline = None if timeout is None else times.now() + timedelta(seconds=timeout)
    last = None
    while True:
        seen = api.get(path_of(_PATH, group_id))
        state = str(seen["state"])
        phase = (state, seen["ready"], seen["pool"], [member["state"] for member in seen["members"]])
        if phase != last:
            _report(session, seen)
            last = phase
        if state in _FORMED:
            return 0
        if state in _ENDS:
            session.note(f"error: {states.reason(seen) or 'the group ends'}")
            return FAILED
        if deadline is not None and times.now() >= deadline:
            session.note("error: not formed in time; the group continues: `gpulease group show` reads it")
            return FAILED
        times.pause(_POLL_SECONDS)


def _report(session: Session, seen: "Json") -> None:
    if session.as_json:
        output.write_json_line(seen)
    else:
        session.console.print(views.progress(seen, times.now()))


def _path(api: "Api", reference: str) -> str:
    return path_of(_PATH, lookup.group_id(api, reference))
