"""Completes names in the shell, within a time limit."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from app.cli.endpoint import Choice, find_endpoint
from app.cli.profiles.profiles import config_path, load

if TYPE_CHECKING:
    from app.cli.client import Params
    from app.cli.errors import Json

_PATIENCE = 1.0
"Seconds after which completion stops waiting for a response."
_LIMIT = 100
_PLAIN = re.compile(r"[A-Za-z0-9_.@+][A-Za-z0-9_.@+:/=-]*")
"The characters that a shell takes literally. Other people choose names, and names reach a command line."


def live_leases(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the leases that have not ended, or ids if the input starts like an id."""
    return _leases(context, incomplete, "!terminal")


def active_leases(context: typer.Context, incomplete: str) -> list[str]:
    """As `live_leases`, limited to leases that accept a login."""
    return _leases(context, incomplete, "active")


def live_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the groups that have not ended."""
    with suppress(Exception):  # an error message would land in the middle of what is being typed
        return _fitting([str(group["name"]) for group in _ask(context, "/v1/groups", {"state": "!ended"})], incomplete)
    return []


def gpu_models(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the GPU models that have an offering."""
    return _names(context, "/v1/gpu-models", "model", incomplete)


def regions(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the regions of all accounts."""
    return _names(context, "/v1/regions", "region", incomplete)


def _names(context: typer.Context, path: str, member: str, incomplete: str) -> list[str]:
    with suppress(Exception):  # as above
        return _fitting([str(item[member]) for item in _ask(context, path, {}, limit=None)], incomplete)
    return []


def budgets(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the budgets."""
    with suppress(Exception):  # an error message would land in the middle of what is being typed
        return _fitting([str(item["id"]) for item in _ask(context, "/v1/budgets", {})], incomplete)
    return []


def profile_names(incomplete: str) -> list[str]:
    """The names in config.toml."""
    with suppress(Exception):  # an error message would land in the middle of what is being typed
        path = config_path(os.environ)
        return _fitting(load(path).by_name if path else (), incomplete)
    return []


def _leases(context: typer.Context, incomplete: str, state: str) -> list[str]:
    with suppress(Exception):  # as above
        search = incomplete if incomplete and not incomplete.startswith("lease_") else None
        leases = _ask(context, "/v1/leases", {"state": state, "search": search})
        what = "id" if incomplete.startswith("lease_") else "name"
        return _fitting([str(lease.get(what) or lease["id"]) for lease in leases], incomplete)
    return []


def _ask(context: typer.Context, path: str, params: "Params", *, limit: int | None = _LIMIT) -> "list[Json]":
    from app.cli.client import Api  # noqa: PLC0415 - as in the session

    chosen = {**context.find_root().params, **{name: value for name, value in context.params.items() if value}}
    endpoint = find_endpoint(
        Choice(chosen.get("url"), chosen.get("key"), chosen.get("profile")),
        operator=bool(chosen.get("as_operator")),
        environ=os.environ,
        directory=Path.cwd(),
        profile_key=lambda profile: profile.key,  # a key command might ask for a passphrase
    )
    with Api(endpoint, note=lambda _: None, timeout=_PATIENCE) as api:
        page, _ = api.get_if_changed(path, None, {**params, "limit": limit})
    return list((page or {}).get("items") or ())


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)})
