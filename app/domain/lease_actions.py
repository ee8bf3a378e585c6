"""Which actions a lease allows at present: asked before an action is carried out, and shown in advance with the lease."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.leases import Desired, LeaseState


class Refusal(StrEnum):
    """Why an action is not allowed. Each is the code of an error of the API."""

    LEASE_ENDING = "lease_ending"
    LEASE_NOT_ACTIVE = "lease_not_active"
    TENANT_SUSPENDED = "tenant_suspended"
    NOT_EXTENDABLE = "not_extendable"
    NOT_LATER = "not_later"
    TERM_EXCEEDED = "term_exceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An extension of a lease to a later time, or to any later time where none is known yet.

    `expired`: the lease's time is over. `extendable`: False where the cloud itself ends the VM at the lease's end.
    `lengthens`: the new expiry is later than the present one. `exceeds_terms`: it is later than the tenant's terms allow.
    """

    desired: Desired
    expired: bool
    tenant_active: bool
    extendable: bool
    lengthens: bool
    exceeds_terms: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterExpiry:
    """A requested extension: `by` a duration, or `to` a time. Exactly one of the two is set."""

    by: timedelta | None = None
    to: datetime | None = None

    @property
    def field(self) -> str:
        """The field of the request that is set."""
        return "expires_at" if self.by is None else "extend_by_seconds"

    def after(self, expires_at: datetime) -> datetime:
        """The new expiry of a lease that expires at `expires_at`."""
        if self.by is not None:
            return expires_at + self.by
        assert self.to is not None
        return self.to


def release_refusal(desired: Desired) -> Refusal | None:
    """A lease is released once. To repeat a release is no error, but there is nothing left to do."""
    return None if desired is Desired.RUN else Refusal.LEASE_ENDING


def reboot_refusal(desired: Desired, state: LeaseState) -> Refusal | None:
    """Only the VM of an active lease can be rebooted."""
    if desired is not Desired.RUN:
        return Refusal.LEASE_ENDING
    return None if state is LeaseState.ACTIVE else Refusal.LEASE_NOT_ACTIVE


def prolonging_refusal(desired: Desired, *, tenant_active: bool) -> Refusal | None:
    """What may give a lease more time than it would have: holding its idleness off, and a higher spend cap."""
    if desired is not Desired.RUN:
        return Refusal.LEASE_ENDING
    return None if tenant_active else Refusal.TENANT_SUSPENDED


def extension_refusal(extension: Extension) -> Refusal | None:
    """The first reason why a lease cannot be extended so."""
    if extension.desired is not Desired.RUN or extension.expired:
        return Refusal.LEASE_ENDING
    if not extension.tenant_active:
        return Refusal.TENANT_SUSPENDED
    if not extension.lengthens:
        return Refusal.NOT_LATER
    if not extension.extendable:
        return Refusal.NOT_EXTENDABLE
    return Refusal.TERM_EXCEEDED if extension.exceeds_terms else None
