"""Quotes: a stored plan whose price holds for 15 minutes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from app.db.core.ids import new_id
from app.db.leases import quotes as statements
from app.domain.ids import is_typeid
from app.domain.quotes import VALID_FOR, Quote, QuotedPrice, stored_request
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest, ResourceNotFound
from app.services.leases.refusals import no_offering
from app.services.leases.requests import CreateLease
from app.services.leases.volumes import with_volume_place
from app.services.offering_cache import OfferingCache
from app.services.offerings.plan import Plan, PlanService
from app.services.principal import Principal
from app.services.request_checks import check_request


class QuoteService:
    """Everything happens within the principal's tenant; an operator names any."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache, plans: PlanService) -> None:
        self._database = context.database
        self._catalogue = catalogue
        self._plans = plans

    async def create(self, principal: Principal, new: CreateLease, render: Callable[[Plan], dict[str, Any]]) -> Any:
        """A row of the table. `render` makes the stored form of the plan: its candidates cost at most the quoted price.

        Raises what PlanService.plan raises, and NoOffering.
        """
        tenant_id = whose(principal, new.tenant_id)
        plan = await self._plans.plan(principal, new)
        if plan.best is None:
            new = await with_volume_place(self._database, new, tenant_id=tenant_id, within=principal.tenant_id)
            snapshot = await self._catalogue.snapshot()
            raise no_offering(check_request(snapshot, tenant_id, new), operator=principal.is_operator)
        price = QuotedPrice.of(plan.best.rate, new.request.ttl_seconds)
        values = {
            "id": new_id("quote"),
            "tenant_id": tenant_id,
            "key_id": principal.key_id,
            "request": stored_request(
                new.request,
                max_cost=new.max_cost,
                expiry_warnings=new.expiry_warnings,
                ssh_keys=new.ssh_keys,
                startup_script=new.startup_script,
            ),
            "plan": to_jsonable_python(render(within_price(plan))),
            "price_per_hour": price.rate.total,
            "total": price.total,
        }
        async with self._database.transaction(principal.tenant_id) as connection:
            return (await connection.execute(statements.add(values, valid_for=VALID_FOR))).one()

    async def get(self, principal: Principal, quote_id: str, *, tenant_id: str | None = None) -> Any:
        """A row of the table. `tenant_id`: an operator names the tenant that must own the quote. Raises ResourceNotFound."""
        if not is_typeid("quote", quote_id):
            raise ResourceNotFound
        statement = statements.get(quote_id, within=principal.tenant_id or tenant_id)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            raise ResourceNotFound
        return row

    async def for_lease(self, principal: Principal, quote_id: str, tenant_id: str | None) -> Quote:
        """The quote from which a lease of this tenant is created, expired or not. Raises InvalidRequest."""
        try:
            return Quote.of(await self.get(principal, quote_id, tenant_id=whose(principal, tenant_id)))
        except ResourceNotFound:
            detail = "is not the id of a quote of this tenant"
            raise InvalidRequest(errors=[FieldError("#/body/quote_id", detail)]) from None


def within_price(plan: Plan) -> Plan:
    """The plan with the candidates that cost at most as much as the first one, with all parts."""
    ceiling = plan.candidates[0].rate.total
    candidates = [candidate for candidate in plan.candidates if candidate.rate.total <= ceiling]
    ranked = tuple(replace(candidate, rank=rank) for rank, candidate in enumerate(candidates, start=1))
    return replace(plan, candidates=ranked)
