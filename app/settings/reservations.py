"""The reservations of an account: capacity at its cloud that the operator bought ahead."""

from decimal import Decimal
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

TenantId = Annotated[str, Field(pattern=r"^tenant_[0-9a-z]{26}$")]


class ReservationSettings(BaseModel):
    """One reservation. `kind` is one of the kinds of the account's provider.

    `id`: the reservation's id at the cloud; kinds without one leave it out. `count`: the most VMs that gpulease runs in
    it at a time; None: all that the cloud reports as free. `starts_at` and `ends_at` narrow what the cloud reports.
    `price_per_hour`: USD that a lease is billed for the whole VM. `tenants`: who may use it; empty: every tenant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    kind: str
    id: str | None = Field(default=None, min_length=1, max_length=512)
    region: str
    zone: str
    instance_type: str
    count: int | None = Field(default=None, ge=1, le=10_000)
    starts_at: AwareDatetime | None = None
    ends_at: AwareDatetime | None = None
    price_per_hour: Decimal = Field(default=Decimal(0), ge=Decimal(0), max_digits=14, decimal_places=6)
    tenants: tuple[TenantId, ...] = Field(default=(), max_length=1000)

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.starts_at is not None and self.ends_at is not None and self.ends_at <= self.starts_at:
            raise ValueError(f"reservation {self.name} ends at or before its start: correct starts_at or ends_at")
        return self


class ReservationKind(BaseModel):
    """A kind of reservation of one provider. `has_id`: reservations of this kind have an id at the cloud."""

    model_config = ConfigDict(frozen=True)

    name: str
    has_id: bool = True


def check_reservations(
    reservations: tuple[ReservationSettings, ...], regions: tuple[str, ...], kinds: tuple[ReservationKind, ...]
) -> None:
    """Raises ValueError for what one account's reservations contradict: names, regions, kinds or ids."""
    known = {kind.name: kind for kind in kinds}
    names: set[str] = set()
    for reservation in reservations:
        where = f"reservation {reservation.name}"
        if reservation.name in names:
            raise ValueError(f"two reservations are named {reservation.name}: give each its own name")
        names.add(reservation.name)
        if reservation.region not in regions:
            raise ValueError(f"{where} is in {reservation.region}: add that region to the account's regions")
        kind = known.get(reservation.kind)
        if kind is None:
            raise ValueError(f"{where} has kind {reservation.kind!r}: use one of {', '.join(known) or 'none'}")
        if kind.has_id and reservation.id is None:
            raise ValueError(f"{where} has no id: copy the reservation's id at the cloud")
        if not kind.has_id and reservation.id is not None:
            raise ValueError(f"{where} has an id, but kind {kind.name} has none: remove the id")
