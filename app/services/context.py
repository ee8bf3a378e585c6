"""What every use case works with, built once by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from app.db.core import api_errors
from app.db.core.engine import ApiDatabase
from app.db.core.ids import new_id
from app.db.operations.ops import StuckAfter
from app.domain.ids import LeaseId
from app.domain.schema import SchemaRevisions
from app.settings import Settings

DatabaseUnavailable = api_errors.DatabaseUnavailable
"""The database does not answer, or aborted the transaction: every use case may raise it."""


class Hints(Protocol):
    """Wakes a worker up early."""

    def wake(self, lease_id: LeaseId) -> None:
        """Never blocks and never fails: a lost hint costs one sweep interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """Passed to each service when it is built. `schema`: the migrations this program knows."""

    database: ApiDatabase
    settings: Settings
    hints: Hints
    schema: SchemaRevisions
    redis_is_up: Callable[[], bool] = lambda: True
    """Whether Redis answered this process the last time."""


def stuck_after(settings: Settings) -> StuckAfter:
    """When a lease counts as stuck, by the settings."""
    return StuckAfter(
        release=settings.release_alarm_seconds,
        launch=settings.launch_timeout,
        boot=settings.boot_timeout,
        boot_large=max(settings.boot_timeout, settings.boot_timeout_large),
    )


def new_request_id() -> str:
    """The id of a request: `req_…`."""
    return new_id("req")
