"""Alembic, with a clear message instead of a traceback when the database cannot be reached."""

from collections.abc import Sequence
from pathlib import Path

from alembic.config import CommandLine
from sqlalchemy.exc import OperationalError

from app.settings import StartupError


def migrate(ini: Path, arguments: Sequence[str]) -> None:
    """`upgrade head`, or what else is asked of Alembic. Raises StartupError when the database does not answer."""
    command = CommandLine(prog="gpulease-server migrate")
    try:
        command.main(["-c", str(ini), *(arguments or ["upgrade", "head"])])
    except OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise StartupError(f"the database does not answer (GPULEASE_DATABASE_URL): {reason}") from None
