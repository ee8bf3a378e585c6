"""The operators' view of the whole installation, and its brakes. The routes require the role operator."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.fleet import account_checks
from app.db.fleet.jobs import DEADMAN, beat
from app.db.operations import ops as statements
from app.domain.brakes import BrakeName
from app.domain.ids import is_typeid
from app.services.audit import record
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cursor, moment
from app.services.errors import ResourceNotFound
from app.services.ops_summary import Row, Summary, SummaryReader
from app.services.principal import Principal
from app.services.totals import total_count

log = structlog.get_logger(__name__)

_KIND = "orphans"
_EVERYTHING = "installation"
"""Audit target of a change to the whole installation."""


class OpsService:
    """Reads and changes the state that all tenants share. Changes write an audit row."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database
        self._summary = SummaryReader(context)

    async def summary(self) -> Summary:
        """The current summary of the installation."""
        return await self._summary.get()

    async def orphans(self, *, gone: bool, page: PageRequest) -> RowPage:
        """Orphans, the most recently discovered first. `gone` includes orphans that have already been terminated."""
        statement = statements.orphans(gone=gone, after=_orphan_key(page), limit=page.limit + 1)
        first = partial(statements.orphans, gone=gone, after=None, limit=1)
        total = await total_count(self._database, None, page, first)
        async with self._database.transaction(None, read_only=True) as connection:
            rows = (await connection.execute(statement)).all()
        more = len(rows) > page.limit
        rows = rows[: page.limit]
        return RowPage(rows, _orphan_cursor(rows[-1]) if more else None, total)

    async def end_orphan(self, principal: Principal, orphan_id: str) -> None:
        """Marks an orphan for garbage collection's next cycle. Raises ResourceNotFound when no such orphan is open."""
        if not is_typeid("orphan", orphan_id):
            raise ResourceNotFound
        async with self._database.transaction(None) as connection:
            row = (await connection.execute(statements.end_orphan(orphan_id))).mappings().first()
            if row is None:
                raise ResourceNotFound
            await record(connection, principal, "orphan.end", target=orphan_id, tenant_id=None, after=dict(row))

    async def adopt(self, principal: Principal) -> int:
        """Requests the rebuild of leases from the tags of all VMs whose rows are lost. Returns the number of VMs."""
        async with self._database.transaction(None) as connection:
            rows = (await connection.execute(statements.adopt_orphans())).all()
            ids = [row.instance_id for row in rows]
            await record(
                connection, principal, "orphans.adopt", target=_EVERYTHING, tenant_id=None, after={"instances": ids}
            )
        return len(rows)

    async def accounts(self) -> Sequence[Row]:
        """Rows of ops.ACCOUNTS."""
        return await self._database.fetch(None, statements.ACCOUNTS)

    async def cordon(self, principal: Principal, name: str, *, cordoned: bool, note: str | None) -> Sequence[Row]:
        """Stops launches at an account, or allows them again. Returns the account's rows. Raises ResourceNotFound."""
        async with self._database.transaction(None) as connection:
            before = await _account(connection, name)
            since = (await connection.execute(statements.BRAKES)).one().as_of
            value = _brake(principal, since, note) if cordoned else None
            await connection.execute(statements.cordon(name, value))
            await record(
                connection,
                principal,
                "account.cordon" if cordoned else "account.uncordon",
                target=name,
                tenant_id=None,
                before={"cordoned": before.cordoned},
                after={"cordoned": value},
            )
        _log(BrakeName.CORDON, principal, account=name, is_set=cordoned)
        return [row for row in await self.accounts() if row["name"] == name]

    async def account_checks(self, name: str) -> Any:
        """A row of account_checks.of_account. Raises ResourceNotFound."""
        async with self._database.transaction(None, read_only=True) as connection:
            row = (await connection.execute(account_checks.of_account(name))).one_or_none()
        if row is None:
            raise ResourceNotFound
        return row

    async def request_account_checks(self, principal: Principal, name: str) -> Any:
        """Requests another run of an account's checks. Returns a row of account_checks.of_account.

        Raises ResourceNotFound.
        """
        async with self._database.transaction(None) as connection:
            before = (await connection.execute(account_checks.of_account(name))).one_or_none()
            if before is None:
                raise ResourceNotFound
            requested_at = (await connection.execute(account_checks.request(name))).scalar_one()
            await record(
                connection,
                principal,
                "account.check",
                target=name,
                tenant_id=None,
                before={"requested_at": _moment(before.requested_at)},
                after={"requested_at": _moment(requested_at)},
            )
            return (await connection.execute(account_checks.of_account(name))).one()

    async def stop_launches(self, principal: Principal, *, stopped: bool, note: str | None) -> Any:
        """Sets or lifts the emergency stop of all launches. Returns a row of ops.BRAKES.

        Raises DatabaseUnavailable after three seconds while another transaction holds the row of the installation.
        """
        async with self._database.transaction(None) as connection:
            await connection.execute(statements.SOON)
            before = (await connection.execute(statements.BRAKES)).one()
            value = _brake(principal, before.as_of, note) if stopped else None
            await connection.execute(statements.stop_launches(value))
            await record(
                connection,
                principal,
                "launches.stop" if stopped else "launches.allow",
                target=_EVERYTHING,
                tenant_id=None,
                before={"launches_stopped": before.launches_stopped},
                after={"launches_stopped": value},
            )
            after = (await connection.execute(statements.BRAKES)).one()
        _log(BrakeName.LAUNCHES_STOPPED, principal, is_set=stopped)
        self._summary.forget()
        return after

    async def deadman_passed(self) -> None:
        """Records a pass of the dead-man switch over every account and region.

        Writes no audit row, since a pass comes every few minutes.
        """
        async with self._database.transaction(None) as connection:
            await connection.execute(*beat(DEADMAN, DEADMAN))

    async def resume(self, principal: Principal) -> Any:
        """Lifts the hold that a changed database has set. Returns a row of ops.BRAKES."""
        async with self._database.transaction(None) as connection:
            await connection.execute(statements.SOON)
            before = (await connection.execute(statements.BRAKES)).one()
            if before.hold is None:
                return before
            await connection.execute(statements.LIFT_HOLD)
            await record(
                connection,
                principal,
                "hold.lift",
                target=_EVERYTHING,
                tenant_id=None,
                before={"hold": before.hold},
                after={"hold": None},
            )
            after = (await connection.execute(statements.BRAKES)).one()
        self._summary.forget()
        return after


async def _account(connection: AsyncConnection, name: str) -> Any:
    row = (await connection.execute(statements.ACCOUNT, {"name": name})).one_or_none()
    if row is None:
        raise ResourceNotFound
    return row


def _log(brake: BrakeName, principal: Principal, *, is_set: bool, account: str | None = None) -> None:
    event = "brake set" if is_set else "brake lifted"
    log.warning(event, brake=str(brake), account=account, by=principal.key_id)


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def _brake(principal: Principal, since: datetime, note: str | None) -> dict[str, Any]:
    return {"by": principal.key_id, "since": _moment(since), "note": note}


def _orphan_key(page: PageRequest) -> statements.OrphanKey | None:
    parts = page.after(_KIND, 4)
    if parts is None:
        return None
    return moment(parts[0]), parts[1], parts[2], parts[3]


def _orphan_cursor(row: Any) -> str:
    return cursor(_KIND, row.first_seen_at.isoformat(), row.account, row.region, row.instance_id)
