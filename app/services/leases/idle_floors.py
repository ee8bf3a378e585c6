"""The idle floor of a tenant: an operator's rule for all of its leases, which members cannot weaken."""

from datetime import timedelta
from typing import Any

from app.db.leases import idleness
from app.db.tenancy import tenants as statements
from app.domain.idleness import IdleFloor, longest_keep
from app.domain.ids import is_typeid
from app.services.context import ServiceContext
from app.services.errors import ResourceNotFound
from app.services.ops import audit
from app.services.principal import Principal


class IdleFloorService:
    """Changes need an operator, which the routes require. Every key may read the floor of its own tenant."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def get(self, principal: Principal, tenant_id: str) -> IdleFloor:
        """Raises ResourceNotFound for an unknown tenant, and for one without a floor."""
        _check_id(tenant_id)
        if principal.tenant_id not in {None, tenant_id}:
            raise ResourceNotFound
        rows = await self._database.fetch(principal.tenant_id, statements.GET, tenant_id=tenant_id)
        if not rows or rows[0]["idle_floor"] is None:
            raise ResourceNotFound
        return IdleFloor.from_json(rows[0]["idle_floor"])

    async def set(self, principal: Principal, tenant_id: str, floor: IdleFloor | None) -> None:
        """It applies to running leases at once, and bounds what they were kept before. None removes the floor.

        Leases are locked before their tenant, as by every change of a lease that reserves quota. Raises ResourceNotFound.
        """
        _check_id(tenant_id)
        after: Any = None if floor is None else floor.as_json()
        most = longest_keep(floor)
        async with self._database.transaction(None) as connection:
            if most is not None:
                await connection.execute(idleness.lock_live(tenant_id))
            before = (await connection.execute(statements.get(tenant_id, within=None, lock=True))).mappings().first()
            if before is None:
                raise ResourceNotFound
            if before["idle_floor"] == after:
                return
            await connection.execute(statements.change(tenant_id, {"idle_floor": after}))
            if most is not None:
                await connection.execute(idleness.bound_keeps(tenant_id, timedelta(seconds=most)))
            action = "tenant.idle_floor.clear" if floor is None else "tenant.idle_floor.set"
            was = {"idle_floor": before["idle_floor"]}
            await audit.record(
                connection,
                principal,
                action,
                target=tenant_id,
                tenant_id=tenant_id,
                before=was,
                after={"idle_floor": after},
            )


def _check_id(tenant_id: str) -> None:
    if not is_typeid("tenant", tenant_id):
        raise ResourceNotFound
