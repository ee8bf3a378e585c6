"""Statements on the last checks of each account."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Interval, Text, bindparam, func, or_, select
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect
from app.db.schema.tables import account, account_check
from app.domain.account_checks import AccountCheck, failures

_SETTLED = timedelta(minutes=1)
"""A new account is checked after its first listing and its first offerings, which matter more."""


_LAST = account_check.c
_DUE = (
    select(account.c.name)
    .select_from(account.outerjoin(account_check, _LAST.account == account.c.name))
    .where(
        account.c.name == bindparam("named", type_=Text),
        or_(
            _LAST.checked_at.is_(None) & (account.c.created_at < func.now() - _SETTLED),
            _LAST.checked_at < func.now() - bindparam("every", type_=Interval),
            _LAST.requested_at.is_not(None) & (_LAST.checked_at.is_(None) | (_LAST.requested_at > _LAST.checked_at)),
        ),
    )
)


def due(name: str, *, every: timedelta) -> Bound[AnySelect]:
    """One row when the account must be checked: never checked, not since `every`, or requested since the last run."""
    return Bound(_DUE, {"named": name, "every": every})


def save(name: str, checks: Sequence[AccountCheck]) -> Insert:
    """Replaces the checks of an account."""
    statement = insert(account_check).values(
        account=name,
        checked_at=func.now(),
        failed=len(failures(checks)),
        checks=[check.as_json() for check in checks],
    )
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[account_check.c.account],
        set_={"checked_at": new.checked_at, "failed": new.failed, "checks": new.checks},
    )


def request(name: str) -> AnyInsert:
    """Asks the workers for another run. Returns (requested_at)."""
    statement = insert(account_check).values(account=name, requested_at=func.now())
    return statement.on_conflict_do_update(
        index_elements=[account_check.c.account], set_={"requested_at": statement.excluded.requested_at}
    ).returning(account_check.c.requested_at)


def of_account(name: str) -> AnySelect:
    """(name, checked_at, requested_at, checks) of an account; no row for an unknown one."""
    return (
        select(account.c.name, _LAST.checked_at, _LAST.requested_at, _LAST.checks)
        .select_from(account.outerjoin(account_check, _LAST.account == account.c.name))
        .where(account.c.name == name)
    )
