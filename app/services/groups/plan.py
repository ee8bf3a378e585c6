"""POST /v1/groups/plan: what a request for a group would lead to, without doing it."""

from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.groups.creation import check_names
from app.services.groups.requests import CreateGroup, about_lease, check_group
from app.services.leases.admission import check_terms, needs_of
from app.services.leases.ssh_keys import with_ssh_keys
from app.services.offering_cache import OfferingCache
from app.services.offerings.plan import WHOLE, Plan, make_plan, read_state
from app.services.principal import Principal
from app.services.request_checks import check_request


class GroupPlanService:
    """Answers what `GroupCreation.create` would do."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._database = context.database
        self._catalogue = catalogue

    async def plan(self, principal: Principal, new: CreateGroup, part: slice = WHOLE) -> Plan:
        """The plan of all members. `part`: of candidates and excluded offerings.

        Raises the errors of a create, except that a short quota and no offering are part of the plan.
        """
        tenant_id = whose(principal, new.tenant_id)
        snapshot = await self._catalogue.snapshot()
        with about_lease():
            member = check_request(snapshot, tenant_id, new.lease)
        checked = check_group(snapshot, new, member)
        needs = needs_of(principal, tenant_id, checked, members=new.size)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            state = await read_state(connection, principal, needs)
            with about_lease():
                await check_terms(connection, tenant_id, new.lease.request.ttl_seconds)
                await with_ssh_keys(
                    connection, checked.new, tenant_id=tenant_id, key_id=principal.key_id, in_group=True
                )
            await check_names(connection, tenant_id, new)
        if checked.refusal is not None:
            with about_lease():
                raise checked.refusal
        return make_plan(checked, state, part)
