"""The operators' view of the whole installation, and its brakes. The routes require the role operator."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.fleet import account_checks, cordons
from app.db.fleet.jobs import DEADMAN, beat
from app.db.operations import ops as statements
from app.domain.brakes import BrakeName
from app.domain.ids import is_typeid
from app.domain.offerings import MOST_CORDONS, OfferingSelector
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cursor, moment
from app.services.errors import FieldError, InvalidRequest, ResourceNotFound
from app.services.health import HealthService
from app.services.ops.audit import record
from app.services.ops.summary import Row, Summary, SummaryReader
from app.services.principal import Principal
from app.services.totals import total_count

log = structlog.get_logger(__name__)

_KIND = "orphans"
_EVERYTHING = "installation"
"""Audit target of a change to the whole installation."""


class OpsService:
    """Reads and changes the state that all tenants share. Changes write an audit row."""

    def __init__(self, context: ServiceContext, health: HealthService) -> None:
        self._database = context.database
        self._summary = SummaryReader(context, health)

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
            before = (await connection.execute(cordons.of_account(name))).one_or_none()
            if before is None:
                raise ResourceNotFound
            value = _brake(principal, before.as_of, note) if cordoned else None
            await connection.execute(cordons.cordon_account(name, value))
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

    async def cordon_offerings(
        self, principal: Principal, selector: OfferingSelector, *, cordoned: bool, note: str | None
    ) -> Sequence[Row]:
        """Stops launches at offerings of a region, or lifts the cordon that was set with the same selector.

        A change that was made before changes nothing. Returns the account's rows. Raises ResourceNotFound,
        InvalidRequest for a region or offerings that do not exist, and DatabaseUnavailable after three seconds while
        another transaction holds the row of the region.
        """
        if await self._change_cordons(principal, selector, cordoned=cordoned, note=note):
            _log(
                BrakeName.OFFERING_CORDON, principal, account=selector.account, region=selector.region, is_set=cordoned
            )
            self._summary.forget()
        return [row for row in await self.accounts() if row["name"] == selector.account]

    async def _change_cordons(
        self, principal: Principal, selector: OfferingSelector, *, cordoned: bool, note: str | None
    ) -> bool:
        async with self._database.transaction(None) as connection:
            await connection.execute(statements.SOON)
            row = await _cordons(connection, selector)
            others = [cordon for cordon in row.cordons if not selector.as_json().items() <= cordon.items()]
            before = next((cordon for cordon in row.cordons if cordon not in others), None)
            after = {**selector.as_json(), **_brake(principal, row.as_of, note)} if cordoned else None
            if _reason(before) == _reason(after):
                return False
            if before is None:
                await _check_new_cordon(connection, selector, len(others))
            changed = others if after is None else [*others, after]
            await connection.execute(cordons.cordon_offerings(selector, changed))
            await record(
                connection,
                principal,
                "offerings.cordon" if cordoned else "offerings.uncordon",
                target=f"{selector.account}/{selector.region}",
                tenant_id=None,
                before={"cordoned": before},
                after={"cordoned": after},
            )
            return True

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


async def _cordons(connection: AsyncConnection, selector: OfferingSelector) -> Any:
    """The locked row of cordons.of_region. Raises ResourceNotFound, and InvalidRequest for another region."""
    row = (await connection.execute(cordons.of_region(selector))).one_or_none()
    if row is not None:
        return row
    regions = (await connection.execute(cordons.regions(selector.account))).scalars().all()
    if not regions:
        raise ResourceNotFound
    detail = f"is no region of the account, which has {', '.join(regions)}"
    raise InvalidRequest(errors=[FieldError("#/body/offerings/region", detail)])


def _reason(cordon: dict[str, Any] | None) -> tuple[str | None] | None:
    return None if cordon is None else (cordon["note"],)


async def _check_new_cordon(connection: AsyncConnection, selector: OfferingSelector, others: int) -> None:
    if not (await connection.execute(cordons.offers(selector))).scalar_one():
        detail = "select no offering of the region: GET /v1/offerings lists them"
    elif others >= MOST_CORDONS:
        detail = f"would be cordon {others + 1} of the region, and {MOST_CORDONS} are allowed: lift one, or cordon more at once"
    else:
        return
    raise InvalidRequest(errors=[FieldError("#/body/offerings", detail)])


def _log(
    brake: BrakeName, principal: Principal, *, is_set: bool, account: str | None = None, region: str | None = None
) -> None:
    event = "brake set" if is_set else "brake lifted"
    log.warning(event, brake=str(brake), account=account, region=region, by=principal.key_id)


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
