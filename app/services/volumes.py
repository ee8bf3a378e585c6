"""Volumes of tenants: creation with its quota, lists, and deletion. Workers create and delete the disks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.fleet import volumes as statements
from app.db.tenancy import budgets as budget_statements
from app.domain.billing import cost
from app.domain.ids import TenantId, is_typeid
from app.domain.offerings import Offering
from app.domain.quotas import VOLUME_GIB
from app.domain.rates import volume_price
from app.domain.volumes import MOST_OF_TENANT, VolumeState
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import Conflict, FieldError, InvalidRequest, NameTaken, ResourceNotFound
from app.services.idempotency import Creation, IdempotencyKey, StoredAnswer, replay, store
from app.services.leases.admission import (
    CHANGED_MEANWHILE,
    Admission,
    BudgetsChanged,
    Needs,
    NoRoom,
    budget_parameters,
    reserve,
)
from app.services.leases.volumes import volume_in_use
from app.services.money.budget_refusals import budget_refusal
from app.services.offering_cache import OfferingCache
from app.services.ops import audit
from app.services.principal import Principal
from app.services.suspension import lock_active
from app.services.totals import total_count

_KIND = "volumes"
_TRIES = 5
_ROOM_FOR = timedelta(hours=1)
"""The budgets of a new volume have room for what it costs in this time."""
_AUDITED = ("name", "size_gib", "account", "region", "zone", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVolume:
    """A checked create call. `tenant_id` None: the caller's own tenant."""

    tenant_id: str | None
    name: str
    size_gib: int
    account: str
    region: str
    zone: str
    labels: Mapping[str, str]


class VolumeService:
    """Everything happens within the principal's tenant; an operator may name any."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._database = context.database
        self._catalogue = catalogue
        self._admission = Admission(context)

    async def create(self, principal: Principal, new: CreateVolume, key: IdempotencyKey | None) -> Creation:
        """The row in `creating`.

        Raises TenantSuspended, InvalidRequest, NameTaken, Conflict, QuotaExceeded, BudgetExceeded.
        """
        tenant_id = whose(principal, new.tenant_id)
        place = _offering_at((await self._catalogue.snapshot()).offerings, new)
        for _ in range(_TRIES):
            needs = _needs(principal, tenant_id, new, rate=Decimal(0))
            try:
                async with self._database.transaction(principal.tenant_id) as connection:
                    stored = await replay(connection, key)
                    if stored is not None:
                        return Creation(stored.response, replayed=True)
                    row = await _insert(connection, principal, tenant_id, new, place)
                    await reserve(connection, needs)
                    await store(connection, key, StoredAnswer(status=201, response=to_jsonable_python(row)))
                    return Creation(row, replayed=False)
            except BudgetsChanged as changed:
                await self._admission.roll_budgets(principal, tenant_id, due=changed.due)
            except NoRoom:
                await self._admission.make_room_or_refuse(principal, needs, None, key)
        raise Conflict(CHANGED_MEANWHILE, retryable=True, headers={"Retry-After": "1"})

    async def page(
        self,
        principal: Principal,
        page: PageRequest,
        *,
        tenant_id: str | None,
        states: frozenset[VolumeState],
        name: str | None,
    ) -> RowPage:
        """Newest first, of the principal's tenant or of the one that an operator names (None: all)."""
        listed = partial(
            statements.page,
            tenant_id=principal.tenant_id or tenant_id,
            states=sorted(str(state) for state in states),
            name=name,
        )
        rows = await self._database.rows(
            principal.tenant_id, listed(after=last_id(page, _KIND, "vol"), limit=page.limit + 1)
        )
        first = partial(listed, after=None, limit=1)
        total = await total_count(self._database, principal.tenant_id, page, first)
        return cut([volume_values(row) for row in rows], page, _KIND, total)

    async def get(self, principal: Principal, volume_id: str) -> dict[str, Any]:
        """Raises ResourceNotFound."""
        _check_id(volume_id)
        rows = await self._database.rows(principal.tenant_id, statements.get(volume_id, within=principal.tenant_id))
        if not rows:
            raise ResourceNotFound
        return volume_values(rows[0])

    async def remove(self, principal: Principal, volume_id: str) -> dict[str, Any]:
        """The row in `deleting`, or as it is when it was deleted already or has ended. Raises ResourceNotFound, VolumeInUse."""
        _check_id(volume_id)
        mine = principal.tenant_id
        async with self._database.transaction(mine) as connection:
            before = (await connection.execute(statements.get(volume_id, within=mine, lock=True))).mappings().first()
            if before is None:
                raise ResourceNotFound
            if before["lease_id"] is not None:
                raise volume_in_use(before)
            statement = statements.request_deletion(volume_id, principal.request_id, within=mine)
            row = (await connection.execute(statement)).mappings().first()
            if row is None:
                return volume_values(before)
            await _record(connection, principal, "volume.delete", row, before=_audited(before))
            return volume_values(row)


def volume_values(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The values of a volume with what it has cost in USD. None: its price is unknown."""
    values = dict(row)
    price, since = values["price_per_hour"], values["billing_started_at"]
    until = values["billing_ended_at"] or values["as_of"]
    spent = None if price is None else cost(price, until - since) if since is not None else Decimal(0)
    return {**values, "cost": spent}


async def _insert(
    connection: AsyncConnection, principal: Principal, tenant_id: TenantId, new: CreateVolume, place: Offering
) -> dict[str, Any]:
    """Changes of one tenant's set of volumes happen one after the other."""
    await lock_active(connection, principal, tenant_id)
    if (await connection.execute(statements.count_live(tenant_id))).scalar_one() >= MOST_OF_TENANT:
        raise Conflict(f"A tenant has at most {MOST_OF_TENANT} volumes: delete one.")
    per_month = (await connection.execute(statements.disk_price(new.account, new.region))).scalar()
    price = None if per_month is None else volume_price(per_month, place.parts, new.size_gib)
    needs = _needs(principal, tenant_id, new, rate=price or Decimal(0))
    asked = budget_statements.asked_by_new(needs.parameters)
    refusal = await budget_refusal(connection, tenant_id, asked, within=principal.tenant_id)
    if refusal is not None:
        raise refusal
    values = {
        "id": new_id("vol"),
        "tenant_id": tenant_id,
        "key_id": principal.key_id,
        "name": new.name,
        "labels": dict(new.labels),
        "size_gib": new.size_gib,
        "provider": place.provider,
        "account": new.account,
        "region": new.region,
        "zone": new.zone,
        "price_per_hour": price,
        "request_id": principal.request_id,
    }
    row = (await connection.execute(statements.add(values))).mappings().first()
    if row is None:
        holder = (await connection.execute(statements.named(tenant_id, [new.name]))).mappings().first()
        volume_id = None if holder is None else holder["id"]
        detail = f"is taken: the volume {volume_id} is named {new.name!r}"
        raise NameTaken(errors=[FieldError("#/body/name", detail)], extra={"volume_id": volume_id})
    await _record(connection, principal, "volume.create", row, after=_audited(row))
    return volume_values(row)


def _needs(principal: Principal, tenant_id: TenantId, new: CreateVolume, *, rate: Decimal) -> Needs:
    """The GiB of quota. `rate`: of a look at the budgets; what is reserved of them is nothing, as volumes have no end."""
    about = {"max_cost": None, "ttl": _ROOM_FOR, "key_id": principal.key_id, "labels": new.labels}
    budgets = budget_parameters(tenant_id, rate=rate, **about)
    return Needs(tenant_id=tenant_id, minimum={VOLUME_GIB: Decimal(new.size_gib)}, budgets=budgets)


def _offering_at(offerings: tuple[Offering, ...], new: CreateVolume) -> Offering:
    """An offering where the volume is to be, so that VMs can mount it. Raises InvalidRequest, Conflict."""
    chosen = {"account": new.account, "region": new.region, "zone": new.zone}
    here = list(offerings)
    for name, value in chosen.items():
        known = sorted({getattr(offering.key, name) for offering in here})
        here = [offering for offering in here if getattr(offering.key, name) == value]
        if not here:
            detail = f"has no offering, so that no VM could mount the volume: GET /v1/offerings lists {', '.join(known[:10]) or 'none'}"
            raise InvalidRequest(errors=[FieldError(f"#/body/{name}", detail)], extra={"known": known})
    _check_kind(here)
    usable = next((offering for offering in here if offering.account_problem is None), None)
    if usable is None:
        raise Conflict("The account is set aside at present. Choose another, or try later.", retryable=True)
    return usable


def _check_kind(here: list[Offering]) -> None:
    """Raises InvalidRequest when no type of a zone attaches the kind of volumes that its account makes."""
    parts = here[0].parts
    kinds = () if parts.volume_kind is None else (parts.volume_kind,)
    objections = [parts.volume_objection(offering.type.name, kinds) for offering in here]
    if None not in objections:
        detail = (
            f"has no instance type that could mount the volume: {here[0].type.name} {objections[0]}. "
            "Choose another zone, or ask the operators to set disk_type of the account"
        )
        raise InvalidRequest(errors=[FieldError("#/body/zone", detail)])


async def _record(
    connection: AsyncConnection, principal: Principal, action: str, row: RowMapping, **what: dict[str, Any]
) -> None:
    await audit.record(connection, principal, action, target=row["id"], tenant_id=row["tenant_id"], **what)


def _audited(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in _AUDITED}


def _check_id(text: str) -> None:
    if not is_typeid("vol", text):
        raise ResourceNotFound
