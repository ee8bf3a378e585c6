"""Starts the API when its database can be used. Its parts are imported last: that takes longer than every check."""

import structlog

from app.db.core.connections import EXCESS_RIGHTS
from app.observability.logs import configure_logs
from app.prerequisites import check_clock, check_database
from app.settings import Settings

_log = structlog.get_logger("gpulease.api")


def start(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartupError for a database or a port that cannot be used."""
    configure_logs(settings.log_level)
    login = check_database(settings.database_url)
    if login.excess:
        _log.warning(EXCESS_RIGHTS, login=login.name, rights=login.excess)
    problem = check_clock(settings.database_url)
    if problem is not None:
        _log.warning(problem)
    from app.server.api import serve  # noqa: PLC0415 - as above

    serve(settings)
