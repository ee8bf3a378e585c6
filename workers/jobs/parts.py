"""Parts of a job that concern one lease, one tenant or one table each."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import DBAPIError

from workers.runtime.database import is_outage
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


@contextmanager
def apart(runtime: Runtime, job: str, **about: str) -> Iterator[None]:
    """What PostgreSQL refuses in the block ends the block alone: it is logged with `about`, and counted. Raises for an outage."""
    try:
        yield
    except DBAPIError as error:
        if is_outage(error):
            raise
        log.warning("part of a job failed", kind=job, error=str(error.orig).partition("\n")[0], **about)
        runtime.metrics.job_failed(job, None, type(error).__name__)
