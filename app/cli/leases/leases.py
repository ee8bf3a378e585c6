"""`gpulease lease`: create, watch, extend and release leases."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completion, lookup, values
from app.cli.command import command
from app.cli.leases import event_views, explain_view, plan_view, quotes, views, watch
from app.cli.leases.filters import LeaseFilters
from app.cli.leases.request import LeaseOptions, for_tenant, request_body
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.session import Session
from app.cli.ssh.offer import ensure_login

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="Lease GPUs: create, watch, extend, release.")

_PATH = "/v1/leases"
_WAITING = frozenset({"queued", "provisioning"})

Reference = Annotated[
    str,
    typer.Argument(metavar="LEASE", help="Id, or unique name of a lease.", autocompletion=completion.live_leases),
]
Until = Annotated[watch.Goal, typer.Option(help="The state to wait for.")]
Timeout = Annotated[
    int | None,
    typer.Option(metavar="DURATION", parser=values.seconds, help="Stop watching after this time, with exit code 1."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also show the whole lease.")]
Limit = Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")]


@dataclass(frozen=True)
class Sending:
    """How `lease create` sends the request."""

    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create without a question.")] = False
    quote: Annotated[
        str | None,
        typer.Option(
            metavar="QUOTE",
            help="Id from `gpulease quote`: gives the options that are not set, and the most that an hour costs.",
        ),
    ] = None
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key returns the same lease; default: a new key.")
    ] = None


@command(group, "create")
def create(
    session: Session,
    options: LeaseOptions,
    sending: Sending,
    *,
    follow: Annotated[bool, typer.Option("--watch", "--follow", help="Watch the lease after creating it.")] = False,
    until: Until = "active",
    timeout: Timeout = None,
) -> None:
    """Create a lease of a VM with GPUs.

    On a terminal, the command first shows instance type, location, price and total, and asks. With --watch, it ends
    when the lease is active (exit code 0) or failed (1).
    """
    if follow:
        session.refuse_csv("a watch")
    api = session.api(operator=options.tenant is not None)
    body = for_tenant(api, request_body(options, quote=sending.quote), options.tenant)
    if session.interactive and not sending.yes:
        _confirm(session, api, body)
    ensure_login(session, api, body)
    lease = api.create(_PATH, body, idempotency_key=sending.idempotency_key)
    if follow:
        raise typer.Exit(watch.follow(session, api, str(lease["id"]), until=until, timeout=timeout))
    session.answer(lease, views.lease, views.sheet)


def _confirm(session: Session, api: "Api", body: "Json") -> None:
    """Asks about the quote, or the first offer of the plan.

    Without an offer there is no question, and the create reports the cause.
    """
    if "quote_id" in body:
        session.console.print(quotes.view(api.get(path_of(quotes.PATH, body["quote_id"]))))
        session.confirm("Create this lease?")
        return
    document = plan_view.whole(api, body)
    if document.get("candidates"):
        session.console.print(plan_view.offer(document, body["ttl_seconds"]))
        session.confirm("Create this lease?")


@command(group, "plan")
def plan(
    session: Session,
    options: LeaseOptions,
    *,
    every: Annotated[bool, typer.Option("--all", help="Show every candidate and every excluded offering.")] = False,
) -> None:
    """Preview which offerings a lease would try, in order, and its cost. Creates nothing."""
    api = session.api(operator=options.tenant is not None)
    body = for_tenant(api, request_body(options), options.tenant)
    document = plan_view.whole(api, body) if every else api.post(plan_view.PATH, body)
    session.answer(document, lambda seen: plan_view.plan(seen, body["ttl_seconds"], every=every), plan_view.sheet)


@command(group, "list")
def list_leases(
    session: Session,
    filters: LeaseFilters,
    *,
    tenant: Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")] = None,
    limit: Limit = 50,
) -> None:
    """List leases that have not ended; --all includes ended leases."""
    params, api = filters.params(), session.api(operator=tenant is not None)
    if tenant:
        params["tenant_id"] = lookup.tenant_id(api, tenant)
    page = api.page(_PATH, params, limit=limit or None)
    none = "no leases" if filters.all else "no leases (--all includes ended leases)"
    session.items(page, views.LEASES, none=none, layout=views.LEASES_LAYOUT)


@command(group, "show")
def show(session: Session, lease: Reference) -> None:
    """Show one lease."""
    api = session.api()
    document = api.get(_path(api, lease))
    session.answer(document, views.lease, views.sheet)
    if document["state"] in _WAITING and not (session.as_json or session.as_csv):
        session.note(watch.explain_hint(lease))


@command(group, "explain")
def explain(session: Session, lease: Reference) -> None:
    """Explain why a lease is not active yet, when gpulease tries next, and what would fit now."""
    api = session.api()
    session.answer(api.get(f"{_path(api, lease)}/explain"), explain_view.explanation, explain_view.sheet)


@command(group, "watch")
def watch_lease(session: Session, lease: Reference, *, until: Until = "terminal", timeout: Timeout = None) -> None:
    """Watch a lease until it ends, or with --until active until it is active.

    Exit code 0 when the lease reaches that state, 1 when it fails. Watching continues through restarts of the API.
    """
    session.refuse_csv("a watch")
    api = session.api()
    lease_id = lookup.lease_id(api, lease)
    raise typer.Exit(watch.follow(session, api, lease_id, until=until, timeout=timeout))


@command(group, "extend")
def extend(
    session: Session,
    lease: Reference,
    by: values.Duration = None,
    *,
    until: values.NewEnd = None,
    verbose: Verbose = False,
) -> None:
    """Extend a lease by a duration, or until a time. The command reports the added cost."""
    body = values.extension(by, until)
    api = session.api()
    path = _path(api, lease)
    before = api.get(path)
    extended = api.post(f"{path}/extend", body)
    session.answer_fact(extended, views.extension(before, extended), views.lease if verbose else None, views.sheet)


@command(group, "keep")
def keep(
    session: Session,
    lease: Reference,
    *,
    duration: Annotated[
        int, typer.Option("--for", metavar="DURATION", parser=values.seconds, help="Such as 2h, from now on.")
    ],
) -> None:
    """Hold idleness off: the lease does not count as idle for this time. Its end by time stays."""
    api = session.api()
    document = api.post(f"{_path(api, lease)}/keep", {"seconds": duration})
    session.answer(document, views.lease, views.sheet)


@command(group, "update")
def update(
    session: Session,
    lease: Reference,
    *,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Label to add or to change; repeatable.")
    ] = None,
    remove_label: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Label to remove; repeatable.")] = None,
    max_cost: Annotated[
        str | None, typer.Option(metavar="USD", help="A new spend cap; `none` removes the spend cap.")
    ] = None,
    warn_before: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION,...", help="Send an event this long before the end, such as 30m,5m; none: no event."
        ),
    ] = None,
) -> None:
    """Change the name, the labels, the spend cap or the warnings of a lease. Other labels stay."""
    added = values.pairs(label or (), what="KEY=VALUE")
    if not any((name is not None, max_cost, warn_before, added, remove_label)):
        raise typer.BadParameter("nothing to change: give at least one option")
    api = session.api()
    path = _path(api, lease)
    body: Json = {} if name is None else {"name": name}
    if max_cost is not None:
        body["max_cost"] = values.amount_or_none(max_cost)
    if warn_before is not None:
        body["expiry_warnings_seconds"] = values.warning_seconds(warn_before)
    if added or remove_label:
        labels = {**(api.get(path).get("labels") or {}), **added}
        body["labels"] = {key: value for key, value in labels.items() if key not in (remove_label or ())}
    session.answer(api.patch(path, body), views.lease, views.sheet)


@command(group, "reboot")
def reboot(session: Session, lease: Reference) -> None:
    """Reboot the VM of an active lease."""
    api = session.api()
    session.answer(api.post(f"{_path(api, lease)}/reboot"), views.lease, views.sheet)


@command(group, "console")
def console(session: Session, lease: Reference) -> None:
    """Show the console output of a VM that failed to boot."""
    api = session.api()
    page = api.get(f"{_path(api, lease)}/console")
    session.items(page, views.CONSOLE, none="no console", layout=views.CONSOLE_LAYOUT)


@command(group, "attempts")
def attempts(session: Session, lease: Reference, *, limit: Limit = 50) -> None:
    """List every attempt of a lease to launch at an offering, with the provider's response."""
    _sub_list(session, lease, "attempts", (views.ATTEMPTS, views.ATTEMPTS_LAYOUT), {}, limit)


@command(group, "events")
def events(
    session: Session,
    lease: Reference,
    *,
    after: Annotated[int | None, typer.Option(help="Only events after this sequence number.")] = None,
    limit: Limit = 50,
) -> None:
    """List the events of a lease, in order."""
    columns = (event_views.LEASE_EVENTS, event_views.LEASE_EVENTS_LAYOUT)
    _sub_list(session, lease, "events", columns, {"after": after}, limit)


def _sub_list(
    session: Session, lease: str, noun: str, table: tuple[output.Columns, Layout], params: "Json", limit: int
) -> None:
    api, (columns, layout) = session.api(), table
    page = api.page(f"{_path(api, lease)}/{noun}", params, limit=limit or None)
    session.items(page, columns, none=f"no {noun}", layout=layout)


def _path(api: "Api", reference: str) -> str:
    return path_of(_PATH, lookup.lease_id(api, reference))
