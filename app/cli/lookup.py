"""Resolves names to ids. A unique name can replace an id."""

from typing import TYPE_CHECKING

from app.cli.errors import AmbiguousError, CliError, Json

if TYPE_CHECKING:
    from app.cli.client import Api, Params

_LOOKED_AT = 2000
"The number of ended leases that a name lookup reads. Older leases need their id."


class UnknownNameError(CliError):
    """No resource has this name."""


def lease_id(api: "Api", reference: str) -> str:
    """The id of a lease given by id or name. If several leases share the name, the one that has not ended is used.

    Raises UnknownNameError, and AmbiguousError with the ids.
    """
    if reference.startswith("lease_"):
        return reference
    live = _named(api, "/v1/leases", {"state": "!terminal"}, reference, limit=None)
    found = live or _named(api, "/v1/leases", {}, reference, limit=_LOOKED_AT)
    return _only(found, reference, "lease")


def tenant_id(api: "Api", reference: str) -> str:
    """The id of a tenant given by id or name. Raises the same errors as for leases."""
    if reference.startswith("tenant_"):
        return reference
    return _only(_named(api, "/v1/tenants", {}, reference, limit=None), reference, "tenant")


def own_tenant_id(api: "Api") -> str:
    """The tenant of the current key. Raises CliError for a key of the whole installation."""
    found = api.get("/v1/me").get("tenant_id")
    if not found:
        msg = "this key belongs to no tenant: select a tenant with --tenant"
        raise CliError(msg)
    return str(found)


def _named(api: "Api", path: str, params: "Params", name: str, *, limit: int | None) -> list[Json]:
    return [item for item in api.page(path, params, limit=limit)["items"] if item.get("name") == name]


def _only(found: list[Json], name: str, noun: str) -> str:
    if not found:
        msg = f"no {noun} has the name {name!r}"
        raise UnknownNameError(msg)
    if len(found) > 1:
        ids = ", ".join(f"{item['id']} ({item.get('state') or item.get('status')})" for item in found)
        msg = f"{len(found)} {noun}s have the name {name!r}: use one of the ids {ids}"
        raise AmbiguousError(msg)
    return str(found[0]["id"])
