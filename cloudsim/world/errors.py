"""What the world refuses. Fronts translate each into their cloud's own words."""

from __future__ import annotations

from dataclasses import dataclass


class WorldError(Exception):
    """Something asked of the world makes no sense there; the message says what."""


@dataclass
class CapacityExhausted(WorldError):
    """No candidate zone has a machine left."""

    instance_type: str
    zones: tuple[str, ...]


@dataclass
class ReservationUnusable(WorldError):
    """The reservation does not exist, is not active, or is for other machines. `code`: missing, inactive or mismatch."""

    reservation: str
    code: str


@dataclass
class ReservationFull(WorldError):
    """No machine of the reservation is free."""

    reservation: str


@dataclass
class QuotaExceeded(WorldError):
    """The account's vCPU quota `code` does not cover `requested` more."""

    code: str
    limit: int
    used: int
    requested: int


@dataclass
class TokenMismatch(WorldError):
    """The launch token was used before with other parameters."""

    token: str


@dataclass
class TokenTerminated(WorldError):
    """The launch token's VM is terminated (only with `relaunch_of_terminated = "error"`)."""

    token: str
