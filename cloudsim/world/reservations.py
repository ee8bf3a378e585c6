"""Capacity that an account bought ahead: how many of its VMs may run in it, and from when until when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """`total` machines of one type in one zone. Times are seconds since the epoch; None: no limit.

    `kind`: the cloud's own word for what was bought. `vms_end_at`: when the cloud itself ends the VMs in it.
    `cancelled`: its account gave it up.
    """

    provider: str
    account: str
    id: str
    kind: str
    region: str
    zone: str
    instance_type: str
    total: int
    starts_at: float | None = None
    ends_at: float | None = None
    vms_end_at: float | None = None
    cancelled: bool = False

    @property
    def key(self) -> str:
        """Unique in the world."""
        return f"{self.provider}/{self.account}/{self.id}"

    def is_active(self, now: float) -> bool:
        """Whether VMs may start in it."""
        over = self.ends_at is not None and now >= self.ends_at
        return not self.cancelled and not over and (self.starts_at is None or now >= self.starts_at)
