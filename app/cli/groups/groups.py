"""`gpulease group`: leases that start together in one place, and end together."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion, lookup, values
from app.cli.command import command
from app.cli.errors import CliError
from app.cli.groups import views, watch
from app.cli.groups.options import GroupOptions, Sending
from app.cli.leases import plan_view
from app.cli.leases.request import LeaseOptions, for_tenant, request_body
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.session import Session
from app.cli.ssh import ssh as login
from app.cli.ssh.offer import ensure_login

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="Groups of leases that start together: create, scale, extend, release.")

_PATH = "/v1/groups"
_PLAN = f"{_PATH}/plan"

Reference = Annotated[
    str, typer.Argument(metavar="GROUP", help="Id, or unique name of a group.", autocompletion=completion.live_groups)
]
Follow = Annotated[bool, typer.Option("--watch", "--follow", help="Report progress until the group is formed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Start without a question.")]
Timeout = Annotated[
    int | None,
    typer.Option(metavar="DURATION", parser=values.seconds, help="Stop watching after this time, with exit code 1."),
]


@command(group, "create")
def create(
    session: Session,
    named: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group. Members are named NAME-0, NAME-1 …")],
    about: GroupOptions,
    options: LeaseOptions,
    sending: Sending,
    *,
    follow: Follow = False,
    timeout: Timeout = None,
) -> None:
    """Create a group of equal leases: all start in one place, or none keeps a VM.

    On a terminal, the command first shows the price of each member and of all, and asks. With --watch, it ends when the
    group is formed (exit code 0) or ends (1).
    """
    if follow:
        session.refuse_csv("a watch")
    api = session.api(operator=options.tenant is not None)
    body = _body(api, named, about, options)
    if session.interactive and not sending.yes:
        document = plan_view.whole(api, body, _PLAN)
        if document.get("candidates"):  # without an offer the create reports the cause
            session.console.print(plan_view.offer(document, body["lease"]["ttl_seconds"]))
            session.confirm("Create this group?")
    ensure_login(session, api, body["lease"])
    made = api.create(_PATH, body, idempotency_key=sending.idempotency_key)
    if follow:
        raise typer.Exit(watch.follow(session, api, str(made["id"]), timeout))
    session.answer(made, views.group, views.sheet)


@command(group, "plan")
def plan(
    session: Session,
    named: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group.")],
    about: GroupOptions,
    options: LeaseOptions,
    *,
    every: Annotated[bool, typer.Option("--all", help="Show every candidate and every excluded offering.")] = False,
) -> None:
    """Preview which offerings a group would try, in order, and the cost of each member and of all. Creates nothing."""
    api = session.api(operator=options.tenant is not None)
    body = _body(api, named, about, options)
    document = plan_view.whole(api, body, _PLAN) if every else api.post(_PLAN, body)
    term = body["lease"]["ttl_seconds"]
    session.answer(document, lambda seen: plan_view.plan(seen, term, every=every), plan_view.sheet)


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
        raise typer.Exit(watch.follow(session, api, lookup.group_id(api, name), timeout))
    session.answer(api.get(_path(api, name)), views.group, views.sheet)


@command(group, "watch")
def watch_group(session: Session, name: Reference, *, timeout: Timeout = None) -> None:
    """Watch a group until it is formed (exit code 0) or ends (1)."""
    session.refuse_csv("a watch")
    api = session.api()
    raise typer.Exit(watch.follow(session, api, lookup.group_id(api, name), timeout))


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
    *,
    yes: Yes = False,
) -> None:
    """Change the size of a group. The last ranks join or leave.

    On a terminal, the command first shows what more members cost, and asks.
    """
    api = session.api()
    path = _path(api, name)
    if session.interactive and not yes:
        _confirm(session, views.growth(api.get(path), size), "Start these members?")
    session.answer(api.patch(path, {"size": size}), views.group, views.sheet)


@command(group, "extend")
def extend(
    session: Session,
    name: Reference,
    by: values.Duration = None,
    *,
    until: values.NewEnd = None,
    yes: Yes = False,
) -> None:
    """Extend all members of a group, or none. Afterwards no member expires before the new end.

    On a terminal, the command first shows what the extension costs, and asks.
    """
    body = values.extension(by, until)
    api = session.api()
    path = _path(api, name)
    if session.interactive and not yes:
        _confirm(session, views.extension(api.get(path), body), "Extend this group?")
    session.answer(api.post(f"{path}/extend", body), views.group, views.sheet)


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


def _body(api: "Api", named: str, about: GroupOptions, options: LeaseOptions) -> "Json":
    if options.name is not None:
        raise typer.BadParameter("use NAME, not --name: the members are named after the group")
    return for_tenant(api, {"name": named, **about.fields(), "lease": request_body(options)}, options.tenant)


def _confirm(session: Session, price: str | None, question: str) -> None:
    """Asks about a price. Without one there is no question: nothing starts, or the API refuses the change."""
    if price is not None:
        session.console.print(price)
        session.confirm(question)


def _path(api: "Api", reference: str) -> str:
    return path_of(_PATH, lookup.group_id(api, reference))
