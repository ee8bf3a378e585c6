"""`gpulease budget`: what a tenant, a key or a label may spend in a period."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion, lookup, values
from app.cli.command import command
from app.cli.keys import key_id
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="Budgets: how much may be spent, and what happens beyond.")

PATH = "/v1/budgets"

Reference = Annotated[
    str, typer.Argument(metavar="BUDGET", help="Id of the budget.", autocompletion=completion.budgets)
]
Tenant = Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")]
Thresholds = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT,...",
        help="Percent of the amount at which gpulease sends an event. Default: 50,80,100.",
    ),
]
Action = Literal["notify", "refuse", "end"]


def scope(item: "Json") -> str:
    """`tenant`, `key key_…` or `label team:vision`: whose leases the budget counts."""
    scope_of_budget = item.get("scope") or {}
    detail = scope_of_budget.get("key_id") or scope_of_budget.get("label")
    return " ".join(str(part) for part in (scope_of_budget.get("kind"), detail) if part)


COLUMNS: output.Columns = (
    ("ID", "id"),
    ("SCOPE", scope),
    ("PERIOD", "period"),
    ("AMOUNT", output.price("amount")),
    ("SPENT", output.price("spent")),
    ("COMMITTED", output.price("committed")),
    ("AVAILABLE", output.price("available")),
    ("EXCEEDED", "exceeded"),
    ("BEYOND", "when_exceeded"),
    ("RESETS", output.when("resets_at")),
)
LAYOUT = Layout(
    ("ID", "SCOPE", "AMOUNT", "AVAILABLE", "SPENT", "PERIOD", "EXCEEDED", "COMMITTED", "BEYOND", "RESETS"),
    wrap={"SCOPE": 16},
    right=frozenset({"AMOUNT", "SPENT", "COMMITTED", "AVAILABLE"}),
)


@dataclass(frozen=True)
class Scope:
    """Whose leases count: those of the tenant, of one key, or with one label."""

    for_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Count the leases that this API key creates. Id or name.")
    ] = None
    label: Annotated[str | None, typer.Option(metavar="KEY=VALUE", help="Count the leases with this label.")] = None
    tenant: Tenant = None

    def body(self, api: "Api") -> "Json":
        """As the API takes it. Raises BadParameter for a key and a label together."""
        if self.for_key and self.label:
            raise typer.BadParameter("use --for-key or --label, not both")
        owner = {"tenant_id": lookup.tenant_id(api, self.tenant)} if self.tenant else {}
        if self.for_key:
            return {"kind": "key", **owner, "key_id": key_id(api, self.for_key)}
        if self.label:
            ((name, value),) = values.pairs([self.label], what="KEY=VALUE").items()
            return {"kind": "label", **owner, "label": f"{name}:{value}"}
        return {"kind": "tenant", **owner}


@command(group, "create")
def create(
    session: Session,
    amount: Annotated[str, typer.Argument(metavar="USD", help="The amount, such as 100.00.")],
    counted: Scope,
    *,
    period: Annotated[
        Literal["day", "month", "lifetime"], typer.Option(help="When the budget starts again (UTC). lifetime: never.")
    ] = "month",
    thresholds: Thresholds = None,
    when_exceeded: Annotated[
        Action,
        typer.Option(
            help="notify: send events. refuse: also refuse new leases. end: also end leases, the most expensive first."
        ),
    ] = "refuse",
) -> None:
    """Create a budget for the leases of a tenant, of one API key or with one label."""
    api = session.api(operator=counted.tenant is not None)
    body: Json = {"scope": counted.body(api), "period": period, "amount": amount, "when_exceeded": when_exceeded}
    if thresholds is not None:
        body["thresholds"] = values.percentages(thresholds)
    session.answer(api.create(PATH, body), output.fields)


@command(group, "list")
def list_budgets(
    session: Session,
    *,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50,
) -> None:
    """List budgets with what is spent, committed and available, in USD."""
    api = session.api(operator=tenant is not None)
    params = {"tenant_id": lookup.tenant_id(api, tenant)} if tenant else None
    session.items(api.page(PATH, params, limit=limit or None), COLUMNS, none="no budgets", layout=LAYOUT)


@command(group, "show")
def show(session: Session, budget: Reference) -> None:
    """Show one budget."""
    api = session.api()
    session.answer(api.get(_path(api, budget)), output.fields)


@command(group, "update")
def update(
    session: Session,
    budget: Reference,
    *,
    amount: Annotated[str | None, typer.Option(metavar="USD", help="The new amount.")] = None,
    thresholds: Thresholds = None,
    when_exceeded: Annotated[Action | None, typer.Option(help="What happens beyond the amount.")] = None,
) -> None:
    """Change a budget. Options that are not given stay unchanged."""
    percentages = None if thresholds is None else values.percentages(thresholds)
    options = {"amount": amount, "thresholds": percentages, "when_exceeded": when_exceeded}
    body = {name: value for name, value in options.items() if value is not None}
    if not body:
        raise typer.BadParameter("nothing to change: give at least one option")
    api = session.api()
    session.answer(api.patch(_path(api, budget), body), output.fields)


@command(group, "delete")
def delete(session: Session, budget: Reference) -> None:
    """Delete a budget. Its leases continue."""
    api = session.api()
    path = _path(api, budget)
    api.delete(path)
    session.note(f"deleted {path.rsplit('/', 1)[-1]}")


def _path(api: "Api", reference: str) -> str:
    return path_of(PATH, lookup.listed_id(api, PATH, reference, "budget"))
