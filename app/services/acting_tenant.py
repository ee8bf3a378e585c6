"""The tenant for which a caller acts."""

from app.domain.ids import TenantId, is_typeid
from app.services.errors import FieldError, InvalidRequest
from app.services.principal import Principal


def whose(principal: Principal, named: str | None, *, pointer: str = "#/body/tenant_id") -> TenantId:
    """The tenant to act for. Only operators name one, and they must. Raises InvalidRequest about the field `pointer`."""
    if principal.tenant_id is not None:
        if named in (None, principal.tenant_id):
            return principal.tenant_id
        raise wrong_tenant("only operators may name a tenant", pointer=pointer)
    if named is None:
        raise wrong_tenant("is required of operators: the tenant to act for", pointer=pointer)
    if not is_typeid("tenant", named):
        raise wrong_tenant("is not the id of a tenant", pointer=pointer)
    return TenantId(named)


def wrong_tenant(detail: str, *, pointer: str = "#/body/tenant_id") -> InvalidRequest:
    """The refusal of a tenant that a body names."""
    return InvalidRequest(errors=[FieldError(pointer, detail)])
