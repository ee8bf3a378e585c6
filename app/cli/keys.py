"""`gpulease key`: API keys. The command that creates a secret shows it once."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import lookup, values
from app.cli.command import command
from app.cli.paths import is_id, path_of
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

group = typer.Typer(no_args_is_help=True, help="API keys.")

Reference = Annotated[str, typer.Argument(metavar="KEY", help="Id or name of the key.")]
Tenant = Annotated[
    str | None, typer.Option(help="Id or name of the tenant (operators); default: the key's own tenant.")
]

COLUMNS: output.Columns = (
    ("ID", "id"),
    ("NAME", "name"),
    ("ROLE", "role"),
    ("PREFIX", "prefix"),
    ("LAST USED", output.when("last_used_at")),
    ("EXPIRES", output.when("expires_at")),
    ("REVOKED", output.when("revoked_at")),
)
LAYOUT = Layout(("ID", "NAME", "ROLE", "LAST USED", "EXPIRES", "REVOKED", "PREFIX"), wrap={"NAME": 16})


@command(group, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument()],
    *,
    role: Annotated[Literal["admin", "member", "viewer"], typer.Option()] = "member",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            "--expires-in",
            metavar="TIME",
            parser=values.future,
            help="30d (from now) or an RFC 3339 time. Default: with the key in use, or never.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="USD", help="All that leases of this key may cost together, such as 5.00."),
    ] = None,
    tenant: Tenant = None,
) -> None:
    """Create a key and show its secret once."""
    api = session.api(operator=tenant is not None)
    options = {"name": name, "role": role, "expires_at": expires, "budget": budget}
    body = {field: value for field, value in options.items() if value is not None}
    made = api.create(_path(api, tenant), body)
    session.answer_secret(made, "key")


@command(group, "list")
def list_keys(
    session: Session,
    *,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50,
) -> None:
    """List the keys, without their secrets."""
    api = session.api(operator=tenant is not None)
    session.items(api.page(_path(api, tenant), limit=limit or None), COLUMNS, none="no keys", layout=LAYOUT)


@command(group, "revoke")
def revoke(session: Session, reference: Reference) -> None:
    """Revoke a key. All processes reject it within 5 seconds."""
    api = session.api()
    revoked_id = key_id(api, reference)
    session.answer(api.delete(path_of("/v1/keys", revoked_id)), output.fields)
    session.note(f"revoked {revoked_id}")


@command(group, "rotate")
def rotate(
    session: Session,
    reference: Reference,
    *,
    overlap: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION", parser=values.seconds, help="How long the old secret stays valid. Default: not at all."
        ),
    ] = None,
) -> None:
    """Rotate the secret of a key and show the new secret once."""
    api = session.api()
    made = api.create(path_of("/v1/keys", key_id(api, reference), "rotate"), {"overlap_seconds": overlap or 0})
    session.answer_secret(made, "key")


def _path(api: "Api", tenant: str | None) -> str:
    tenant_id = lookup.tenant_id(api, tenant) if tenant else lookup.own_tenant_id(api)
    return path_of("/v1/tenants", tenant_id, "keys")


def key_id(api: "Api", reference: str) -> str:
    """The id of a key given by id, shortened id or name. A whole id needs no lookup, so that operators can name the key of any tenant."""
    return reference if is_id(reference, "key") else lookup.listed_id(api, _path(api, None), reference, "key")
