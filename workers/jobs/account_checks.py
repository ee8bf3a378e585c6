"""The checks of an account, once a day and when an operator requests them: the last run is stored for the API."""

from datetime import timedelta

import structlog
from sqlalchemy import Connection

from app.db.fleet import account_checks, accounts
from app.domain.account_checks import AccountCheck, CheckSubject, failures
from workers.account_checks.account_checks import check_account
from workers.providers.common.checks import failed, refused
from workers.providers.errors import ProviderError
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

EVERY = timedelta(days=1)


def check_when_due(runtime: Runtime, account: str, _region: str) -> int:
    """Runs the checks if they are due. Returns their number, 0 when they are not due.

    Failed checks set nothing aside: the cloud's answer to a real call does that. A run ends the blocks of the account.
    """
    if runtime.database.first(account_checks.due(account, every=EVERY)) is None:
        return 0
    checks = _check(runtime, account)
    with runtime.database.begin() as connection:
        checks += _end_blocks(connection, account)
        connection.execute(account_checks.save(account, checks))
    names = [check.name for check in failures(checks)]
    if names:
        log.warning("account checks failed", account=account, failed=names)
    return len(checks)


def _end_blocks(connection: Connection, account: str) -> list[AccountCheck]:
    """Lets launches try the account again, since an operator may have removed the cause. A check for each blocked region.

    It belongs to the transaction that saves the checks: a worker that ends in between would lose the report of the block.
    """
    rows = connection.execute(*accounts.blocked_regions(account)).all()
    if rows:
        connection.execute(*accounts.unblock(account))
        connection.execute(accounts.wake_queued())
    fix = "remove the cause; gpulease tries the next launch again"
    return [
        failed(CheckSubject.REGION, row.region, f"launches were blocked: {row.blocked_by['message']}", fix)
        for row in rows
    ]


def _check(runtime: Runtime, account: str) -> list[AccountCheck]:
    known = runtime.accounts
    try:
        return list(check_account(known.provider(account), known.regions(account), runtime.installation.id))
    except ProviderError as error:
        # raised where the identity of the credentials is verified, before the adapter is called
        return [refused(CheckSubject.CREDENTIALS, account, error, "correct the credentials of this account")]
