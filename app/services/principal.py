"""Who is asking: the outcome of checking an API key."""

from dataclasses import dataclass
from enum import StrEnum

from app.domain.ids import KeyId, TenantId
from app.services.errors import Forbidden


class Role(StrEnum):
    """What a key may do. `operator` acts on the whole installation, `deadman` only sends the dead-man switch's heartbeat.

    The others act within one tenant.
    """

    OPERATOR = "operator"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"
    DEADMAN = "deadman"


_RANKED = (Role.OPERATOR, Role.ADMIN, Role.MEMBER, Role.VIEWER)
_ALLOWED = {
    **{role: frozenset(_RANKED[: place + 1]) for place, role in enumerate(_RANKED)},
    Role.DEADMAN: frozenset({Role.OPERATOR, Role.DEADMAN}),
}
"""The roles that may do what needs a role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A checked key and the request it came with. `tenant_id` is None for the roles operator and deadman only."""

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
        """Raises Forbidden unless this principal may do what needs `role`."""
        if self.role not in _ALLOWED[role]:
            raise Forbidden(f"This needs the role {role}; the key's role is {self.role}.")
