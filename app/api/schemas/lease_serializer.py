"""Converts rows to the JSON of `lease_views` without building models.

A test validates the JSON strictly against the declared models.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

from app.api.schemas.base import to_bytes
from app.api.schemas.leases import AttemptOutcome
from app.domain.lease_actions import Extension, extension_refusal, reboot_refusal, release_refusal
from app.domain.leases import AttemptState, Desired, LeaseState
from app.domain.money import format_money
from app.domain.provider_messages import public_error
from app.domain.rates import Rate
from app.services.cursors import RowPage
from app.services.principal import Role

_PLACE = ("provider", "account", "region", "zone", "instance_type", "market", "reservation")


def lease_json(row: Any, role: Role, *, startup_script: str | None = None) -> bytes:
    """One lease from a row of app.db.leases.statements.READ.

    `startup_script` is included only where the caller may see it.
    """
    return _lease(row, role, startup_script).encode()


def lease_page_json(page: RowPage, role: Role) -> bytes:
    """A page of leases."""
    items = ",".join(_lease(row, role, None) for row in page.rows)
    total = "null" if page.total_count is None else page.total_count
    return f'{{"items":[{items}],"next_cursor":{_text(page.next_cursor)},"total_count":{total}}}'.encode()


def _lease(row: Any, role: Role, startup_script: str | None) -> str:
    """Joins JSON fragments that the database has already rendered."""
    script = _text(startup_script)
    facts = (row.state, row.desired, row.tenant_status, row.over, row.not_extendable, row.at_latest)
    actions = _actions(role, facts)
    words = _text(row.provider_message if role is Role.OPERATOR else None)
    request = f'{row.request[:-1]},"startup_script":{script}}}'
    return f'{row.shown[:-1]},"provider_message":{words},"request":{request},"actions":{actions}}}'


def _text(value: str | None) -> str:
    return "null" if value is None else to_bytes(value).decode()


@cache
def _actions(role: Role, facts: tuple[str, str, str, bool, bool, bool]) -> str:
    """Results of `app.domain.lease_actions`. The number of cases is small, so each is rendered once."""
    state, desired, tenant_status, over, not_extendable, at_latest = facts
    extension = Extension(
        desired=Desired(desired),
        expired=over,
        tenant_active=tenant_status == "active",
        extendable=not not_extendable,
        lengthens=True,
        exceeds_terms=at_latest,
    )
    reasons: dict[str, str | None] = {
        "release": release_refusal(extension.desired),
        "extend": extension_refusal(extension),
        "reboot": reboot_refusal(extension.desired, LeaseState(state)),
    }
    if role is Role.VIEWER:
        reasons = dict.fromkeys(reasons, "forbidden")
    actions = {name: {"available": reason is None, "reason_code": reason} for name, reason in reasons.items()}
    return to_bytes(actions).decode()


def attempt_page_json(page: RowPage, role: Role) -> bytes:
    """A page of attempts."""
    items = [_attempt(row, role) for row in page.rows]
    return to_bytes({"items": items, "next_cursor": page.next_cursor, "total_count": page.total_count})


def _attempt(row: Any, role: Role) -> dict[str, Any]:
    rate = Rate(compute=row.price_per_hour, disk=row.disk_price_per_hour, address=row.address_price_per_hour)
    return {
        "id": row.id,
        "n": row.n,
        "outcome": outcome(row.state, row.instance_id),
        "state": row.state,
        "offering": {
            **{name: getattr(row, name) for name in _PLACE},
            **row.offering,
            **rate.as_json(),
        },
        "instance_id": row.instance_id,
        "error": None if row.error is None else attempt_error(row.error, role),
        "cost": format_money(row.cost or Decimal(0)),
        "started_at": row.created_at,
        "sent_at": row.first_sent_at,
        "launched_at": row.known_at,
        "billing_started_at": row.billing_started_at,
        "billing_ended_at": row.billing_ended_at,
        "ended_at": row.ended_at,
    }


def attempt_error(error: Mapping[str, Any], role: Role) -> dict[str, Any]:
    """The stored error of an attempt, as a caller of this role sees it."""
    words = error.get("message") if role is Role.OPERATOR else None
    return {**public_error(error), "provider_message": words}


def outcome(state: str, instance_id: str | None) -> AttemptOutcome:
    """The public name of an attempt's state."""
    if state == AttemptState.DEAD:
        return AttemptOutcome.ENDED if instance_id is not None else AttemptOutcome.NOT_CREATED
    return _OUTCOMES[AttemptState(state)]


_OUTCOMES = {
    AttemptState.PLANNED: AttemptOutcome.PENDING,
    AttemptState.SENT: AttemptOutcome.PENDING,
    AttemptState.SETTLING: AttemptOutcome.UNKNOWN,
    AttemptState.KNOWN: AttemptOutcome.LAUNCHED,
    AttemptState.REFUSED: AttemptOutcome.REFUSED,
}
