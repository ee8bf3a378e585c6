"""Resolves names and shortened ids to ids. A unique name can replace an id."""

from typing import TYPE_CHECKING

from app.cli.errors import AmbiguousError, CliError, Json
from app.cli.paths import is_id
from app.cli.render.layout import short_id

if TYPE_CHECKING:
    from app.cli.client import Api, Params

_LOOKED_AT = 2000
"The number of ended leases that a name lookup reads. Older leases need their id."


class UnknownNameError(CliError):
    """No resource has this name."""


def lease_id(api: "Api", reference: str) -> str:
    """The id of a lease given by id, shortened id or name. A lease that has not ended goes before ended ones.

    Raises UnknownNameError, and AmbiguousError with the ids.
    """
    if is_id(reference, "lease"):
        return reference
    named: Params = {} if "…" in reference else {"name": reference}
    live = _matching(api, "/v1/leases", {"state": "!terminal", **named}, reference, limit=None)
    matches = live or _matching(api, "/v1/leases", named, reference, limit=_LOOKED_AT)
    return _only(matches, reference, "lease")


def group_id(api: "Api", reference: str) -> str:
    """The id of a group given by id, shortened id or name, as of a lease."""
    if is_id(reference, "group"):
        return reference
    named: Params = {} if "…" in reference else {"name": reference}
    live = _matching(api, "/v1/groups", {"state": "!ended", **named}, reference, limit=None)
    matches = live or _matching(api, "/v1/groups", named, reference, limit=_LOOKED_AT)
    return _only(matches, reference, "group")


def volume_id(api: "Api", reference: str) -> str:
    """The id of a volume given by id, shortened id or name. A volume that exists goes before ended ones."""
    if is_id(reference, "vol"):
        return reference
    named: Params = {} if "…" in reference else {"name": reference}
    live = {"state": ["creating", "available", "deleting"], **named}
    matches = _matching(api, "/v1/volumes", live, reference, limit=None) or _matching(
        api, "/v1/volumes", named, reference, limit=_LOOKED_AT
    )
    return _only(matches, reference, "volume")


def tenant_id(api: "Api", reference: str) -> str:
    """The id of a tenant given by id or name. Raises the same errors as for leases."""
    return listed_id(api, "/v1/tenants", reference, "tenant")


def listed_id(api: "Api", path: str, reference: str, noun: str) -> str:
    """The id of a resource in the list at `path`, given by id, shortened id or name."""
    if is_id(reference, noun):
        return reference
    return _only(_matching(api, path, {}, reference, limit=None), reference, noun)


def own_tenant_id(api: "Api") -> str:
    """The tenant of the current key. Raises CliError for a key of the whole installation."""
    own_id = api.get("/v1/me").get("tenant_id")
    if not own_id:
        msg = "this key belongs to no tenant: select a tenant with --tenant"
        raise CliError(msg)
    return str(own_id)


def _matching(api: "Api", path: str, params: "Params", reference: str, *, limit: int | None) -> list[Json]:
    items = api.page(path, params, limit=limit)["items"]
    return [item for item in items if reference in {item.get("name"), short_id(str(item["id"]))}]


def _only(matches: list[Json], name: str, noun: str) -> str:
    if not matches:
        msg = f"no {noun} has the name {name!r}"
        raise UnknownNameError(msg)
    if len(matches) > 1:
        ids = ", ".join(f"{item['id']} ({item.get('state') or item.get('status')})" for item in matches)
        msg = f"{len(matches)} {noun}s have the name {name!r}: use one of the ids {ids}"
        raise AmbiguousError(msg)
    return str(matches[0]["id"])
