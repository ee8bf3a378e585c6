"""Statements on the installation and its cloud accounts."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    Integer,
    Interval,
    Text,
    TextClause,
    Update,
    all_,
    any_,
    bindparam,
    case,
    cast,
    func,
    literal,
    not_,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert
from sqlalchemy.sql.dml import ReturningUpdate

from app.db.core.prepared import Bound, plain, setting
from app.db.core.sql import AnySelect, Json
from app.db.fleet.cool_offs import IS_SILENT
from app.db.schema.tables import account, account_region, attempt, installation, lease
from app.domain.cool_off import LONGEST_BLOCK, SHORTEST_BLOCK
from app.domain.leases import LIVE_ATTEMPT
from app.domain.vm_parts import PartsFacts

_NAMED = bindparam("named", type_=Text)
_ANSWERED = bindparam("answered", type_=Text)
_CONFIGURED = bindparam("configured", type_=ARRAY(Text))

_INSTALLATION = select(
    installation.c.id, installation.c.token_key, installation.c.hold, installation.c.launches_stopped
)


def installation_row() -> Bound[AnySelect]:
    """The one row: id, token_key, hold, launches_stopped."""
    return Bound(_INSTALLATION, {})


def brakes() -> AnySelect:
    """What stops launches everywhere: (hold, launches_stopped)."""
    return select(installation.c.hold, installation.c.launches_stopped)


_SAVED = insert(account).values(
    **setting(account, (("name", None), ("provider", None), ("config", None), ("vm_parts", None)))
)
_SAVE = _SAVED.on_conflict_do_update(
    index_elements=[account.c.name],
    set_={
        "config": _SAVED.excluded.config,
        "vm_parts": _SAVED.excluded.vm_parts,
        "provider": _SAVED.excluded.provider,
        "state": case((account.c.state == "draining", "unchecked"), else_=account.c.state),
    },
)


def save_account(name: str, provider: str, config: Mapping[str, Any], parts: PartsFacts) -> Bound[Insert]:
    """Stores the settings of a configured account. One that was draining is in use again."""
    stored = {"name": name, "provider": provider, "config": dict(config), "vm_parts": parts.settings_json()}
    return Bound(_SAVE, plain(stored))


_KNOWN_IMAGES = func.coalesce(account_region.c.image_gib, cast({}, JSONB))
_IMAGE = bindparam("image", type_=Text)
_IMAGE_GIB = bindparam("gib", type_=Integer)
_SAVE_IMAGE = (
    update(account_region)
    .where(
        account_region.c.account == bindparam("of_account", type_=Text),
        account_region.c.region == bindparam("of_region", type_=Text),
        _KNOWN_IMAGES[_IMAGE].as_integer().is_distinct_from(_IMAGE_GIB),
    )
    .values(image_gib=_KNOWN_IMAGES.concat(func.jsonb_build_object(_IMAGE, _IMAGE_GIB)))
)


def save_image_size(name: str, region: str, image: str, gib: int) -> Bound[Update]:
    """Stores the least boot disk of an image. `image`: of `app.domain.vm_parts.image_key`."""
    return Bound(_SAVE_IMAGE, {"of_account": name, "of_region": region, "image": image, "gib": gib})


_DRAIN = (
    update(account)
    .where(account.c.name != all_(_CONFIGURED), account.c.state != "draining")
    .values(state="draining")
    .returning(account.c.name)
)


def drain_accounts(configured: Iterable[str]) -> Bound[Update]:
    """Accounts that left the configuration: served from their stored settings, used for nothing new. Returns (name) of new ones."""
    return Bound(_DRAIN, {"configured": list(configured)})


_LIVE = (
    select(attempt.c.id)
    .where(attempt.c.account == account.c.name, attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT]))
    .exists()
)
_IN_USE = select(account.c.name, account.c.provider, account.c.config, account.c.state, account.c.identity).where(
    or_(account.c.name == any_(_CONFIGURED), _LIVE)
)


def accounts_in_use(configured: Iterable[str]) -> Bound[AnySelect]:
    """Configured accounts, and others while an attempt of theirs lives: (name, provider, config, state, identity)."""
    return Bound(_IN_USE, {"configured": list(configured)})


_OPEN = or_(attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT]), not_(attempt.c.clean))
_PLACES_IN_USE = select(attempt.c.account, attempt.c.region).where(_OPEN).distinct()


def places_in_use() -> Bound[AnySelect]:
    """(account, region) wherever an attempt lives or has left something behind, configured or not."""
    return Bound(_PLACES_IN_USE, {})


_ENSURE_REGIONS = text(
    """
    INSERT INTO account_region (account, region)
    SELECT * FROM unnest(CAST(:accounts AS text[]), CAST(:regions AS text[]))
    ON CONFLICT DO NOTHING
    """
)


def ensure_regions(places: Iterable[tuple[str, str]]) -> Bound[TextClause]:
    """Rows for (account, region) pairs that are new."""
    pairs = list(places)
    return Bound(_ENSURE_REGIONS, {"accounts": [name for name, _ in pairs], "regions": [region for _, region in pairs]})


_OK = (
    update(account)
    .where(account.c.name == _NAMED, or_(account.c.identity.is_(None), account.c.identity == _ANSWERED))
    .values(
        identity=_ANSWERED,
        state=case((account.c.state == "draining", account.c.state), else_="ok"),
        last_error=literal(None, Json),
        checked_at=func.now(),
    )
    .returning(account.c.name)
)


def account_ok(name: str, identity: str) -> Bound[Update]:
    """The account answered. Its identity is pinned at first use; another one never counts as ok."""
    return Bound(_OK, {"named": name, "answered": identity})


def wake_queued() -> Update:
    """Leases that wait in the queue look again at once: there is something new to try."""
    return (
        update(lease)
        .where(lease.c.state == "queued", lease.c.desired == "run")
        .values(next_due=func.now(), wake_count=lease.c.wake_count + 1)
    )


_STATE = select(account.c.state).where(account.c.name == _NAMED).with_for_update()


def account_state(name: str) -> Bound[AnySelect]:
    """(state), locked until the transaction ends."""
    return Bound(_STATE, {"named": name})


_ERROR = bindparam("error", type_=JSONB)
_FAILED = (
    update(account)
    .where(account.c.name == _NAMED)
    .values(
        state=case((account.c.state == "draining", account.c.state), else_=bindparam("new_state", type_=Text)),
        last_error=_ERROR,
        checked_at=func.now(),
    )
)


def account_failed(name: str, state: str, error: Mapping[str, Any]) -> Bound[Update]:
    """Sets an account aside (`failing`, `disabled`) with the reason; a draining one stays draining."""
    return Bound(_FAILED, {"named": name, "new_state": state, "error": dict(error)})


@cache
def _region_failed(*, silent: bool) -> ReturningUpdate[*tuple[Any, ...]]:
    since = func.coalesce(account_region.c.last_error["since"], func.to_jsonb(func.now()))
    error = _ERROR.op("||")(func.jsonb_build_object("since", since)) if silent else _ERROR
    statement: ReturningUpdate[*tuple[Any, ...]] = (
        update(account_region)
        .where(account_region.c.account == _NAMED, account_region.c.region == bindparam("in_region", type_=Text))
        .values(last_error=error)
        .returning(IS_SILENT.label("is_silent"), account_region.c.last_error["since"].astext.label("since"))
    )
    return statement


def region_failed(name: str, region: str, error: Mapping[str, Any], *, silent: bool = False) -> Bound[Update]:
    """The last thing that went wrong in a region. `silent`: it gave no answer, `since` the first such time in a row.

    Returns (is_silent, since).
    """
    return Bound(_region_failed(silent=silent), {"named": name, "in_region": region, "error": dict(error)})


_BLOCK = text(
    """
    UPDATE account_region SET
        blocked_since = CASE WHEN blocked_until > now() - :longest THEN blocked_since ELSE now() END,
        blocked_until = now() + CASE WHEN blocked_until > now() - :longest THEN
            least(:longest, greatest(:shortest, now() - blocked_since)) ELSE :shortest END,
        blocked_by = CAST(:error AS jsonb)
    WHERE account = :named AND (CAST(:in_region AS text) IS NULL OR region = :in_region)
        AND coalesce(blocked_until <= now(), true)
    """
).bindparams(bindparam("shortest", type_=Interval), bindparam("longest", type_=Interval))


def block(name: str, region: str | None, error: Mapping[str, Any]) -> Bound[TextClause]:
    """Sets an account aside for launches, in one region or in all (None), because the provider refuses every launch.

    The first time for SHORTEST_BLOCK. After refusals in a row for as long as they have lasted, at most LONGEST_BLOCK. Refusals
    while it is set aside are of launches that were on their way, and change nothing.
    """
    times = {"shortest": SHORTEST_BLOCK, "longest": LONGEST_BLOCK}
    return Bound(_BLOCK, {"named": name, "in_region": region, "error": json.dumps(dict(error)), **times})


_BLOCKED = (
    select(account_region.c.region, account_region.c.blocked_by)
    .where(account_region.c.account == _NAMED, account_region.c.blocked_until > func.now())
    .order_by(account_region.c.region)
)


def blocked_regions(name: str) -> Bound[AnySelect]:
    """(region, blocked_by) of the regions in which the account is set aside for launches."""
    return Bound(_BLOCKED, {"named": name})


_UNBLOCK = (
    update(account_region)
    .where(account_region.c.account == _NAMED)
    .values(blocked_until=None, blocked_since=None, blocked_by=None)
)


def unblock(name: str) -> Bound[Update]:
    """Launches at the account are tried again, in all its regions."""
    return Bound(_UNBLOCK, {"named": name})


def service_quotas(name: str, region: str, quotas: list[dict[str, Any]] | None) -> Update:
    """The provider's own limits, for operators to read. None: they could not be read, and the last ones stay."""
    return (
        update(account_region)
        .where(account_region.c.account == name, account_region.c.region == region)
        .values(
            service_quotas=func.coalesce(account_region.c.service_quotas, cast([], JSONB)) if quotas is None else quotas
        )
    )


# --- offerings --------------------------------------------------------------------------------------------
