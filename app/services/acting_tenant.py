"""The tenant for which a caller acts."""

from app.db.core.engine import ApiDatabase
from app.db.tenancy import tenants
from app.domain.ids import TenantId, is_typeid
from app.services.errors import FieldError, InvalidRequest
from app.services.principal import Principal


def whose(principal: Principal, named: str | None, *, pointer: str = "#/body/tenant_id") -> TenantId:
    """The tenant to act for. Operators must name it; others name at most their own. Raises InvalidRequest about the field `pointer`."""
    if principal.tenant_id is not None:
        if named in (None, principal.tenant_id):
            return principal.tenant_id
        raise wrong_tenant("only operators may name another tenant", pointer=pointer)
    if named is None:
        raise wrong_tenant("is required of operators: the tenant to act for", pointer=pointer)
    if not is_typeid("tenant", named):
        raise unknown_tenant(pointer=pointer)
    return TenantId(named)


async def known_tenant(database: ApiDatabase, principal: Principal, named: str | None) -> TenantId:
    """The same as `whose`, for a call that needs no row of the tenant. Raises InvalidRequest for an unknown tenant, too."""
    tenant_id = whose(principal, named)
    if principal.is_operator and not await database.rows(None, tenants.get(tenant_id, within=None)):
        raise unknown_tenant()
    return tenant_id


def unknown_tenant(*, pointer: str = "#/body/tenant_id") -> InvalidRequest:
    """The refusal of an id of no tenant."""
    return wrong_tenant("is not the id of a tenant", pointer=pointer)


def wrong_tenant(detail: str, *, pointer: str = "#/body/tenant_id") -> InvalidRequest:
    """The refusal of a tenant that a body names."""
    return InvalidRequest(errors=[FieldError(pointer, detail)])
