"""Who is asking: the outcome of checking an API key."""

from dataclasses import dataclass
from enum import StrEnum

from app.domain.ids import KeyId, TenantId
from app.services.errors import Forbidden


class Role(StrEnum):
    """What a key may do. `operator` acts on the whole installation, the others within one tenant."""

    OPERATOR = "operator"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


_RANK = {Role.VIEWER: 0, Role.MEMBER: 1, Role.ADMIN: 2, Role.OPERATOR: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A checked key and the request it came with. `tenant_id` is None for operators only."""

    key_id: KeyId
    key_name: str
    role: Role
    tenant_id: TenantId | None
    address: str | None
    request_id: str

    @property
    def is_operator(self) -> bool:
        """Acts on the whole installation."""
        return self.role is Role.OPERATOR

    @property
    def scope(self) -> str:
        """Within which an Idempotency-Key is unique."""
        return self.tenant_id or self.key_id

    def require(self, role: Role) -> None:
        """Raises Forbidden unless this principal has at least `role`."""
        if _RANK[self.role] < _RANK[role]:
            raise Forbidden(f"This needs the role {role}; the key's role is {self.role}.")
