"""Brings the database up to date: its schema by Alembic, and the logins of the processes where passwords for them are given.

A clear message instead of a traceback where the database cannot be reached or the owner lacks a right.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
from alembic.config import CommandLine
from sqlalchemy.exc import OperationalError

from app.db.core.connections import API_SESSION, WORKER_SESSION, DatabaseUnusable, check_connections
from app.db.core.logins import (
    GROUPS,
    Cluster,
    Login,
    ensure_login,
    login_for,
    owner_connection,
    read_cluster,
    script_for_administrator,
)
from app.db.core.urls import login_url
from app.prerequisites import schema_revisions
from app.settings import Settings, StartupError, load_settings
from app.settings.passwords import read_password


def migrate(ini: Path, arguments: Sequence[str]) -> None:
    """`upgrade head` and the logins, or what else is asked of Alembic. Raises StartupError.

    A schema of a later version stays as it is: this version runs on it.
    """
    try:
        if arguments:
            _run_alembic(ini, arguments)
            return
        settings = load_settings()
        logins = _plan_logins(settings)
        _upgrade(ini, settings.database_url)
        for login in logins:
            _ensure(settings.database_url, login)
    except OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise StartupError(f"the database does not answer (GPULEASE_DATABASE_URL): {reason}") from None


def _upgrade(ini: Path, url: str) -> None:
    with owner_connection(url) as connection:
        exists = connection.execute("SELECT to_regclass('alembic_version')").fetchone()
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if exists != (None,) else None
    revision = None if row is None else row[0]
    if schema_revisions().is_newer(revision):
        sys.stdout.write(f"the schema is at {revision}, newer than this version: left as it is\n")
        return
    _run_alembic(ini, ["upgrade", "head"])


def _run_alembic(ini: Path, arguments: Sequence[str]) -> None:
    CommandLine(prog="gpulease-server migrate").main(["-c", str(ini), *arguments])


def _plan_logins(settings: Settings) -> list[Login]:
    """Those for which there are passwords. Raises StartupError, before anything was changed, when roles are missing that the owner may not make."""
    with owner_connection(settings.database_url) as connection:
        cluster = read_cluster(connection)
    api = read_password("GPULEASE_API_PASSWORD", settings.api_password, settings.api_password_file)
    worker = read_password("GPULEASE_WORKER_PASSWORD", settings.worker_password, settings.worker_password_file)
    try:
        logins = [
            login_for(cluster, session, password)
            for session, password in ((API_SESSION, api), (WORKER_SESSION, worker))
            if password is not None
        ]
    except ValueError as error:
        raise StartupError(str(error)) from None
    missing = {*GROUPS, *(login.name for login in logins)} - cluster.roles
    if missing and not cluster.may_create:
        reason = f"there is no role {' and no role '.join(sorted(missing))}"
        raise StartupError(_refusal(cluster, reason, script_for_administrator(cluster, logins)))
    return logins


def _ensure(url: str, login: Login) -> None:
    """A login that this owner may not change is well when it accepts the password and has its rights."""
    refused = _change(url, login)
    if refused is None:
        sys.stdout.write(f"login {login.name}: password and rights are set\n")
        return
    try:
        check_connections(login_url(url, login.name, login.password), login.settings)
    except DatabaseUnusable as error:
        with owner_connection(url) as connection:
            cluster = read_cluster(connection)
        script = script_for_administrator(cluster, [login])
        raise StartupError(_refusal(cluster, f"{login.name}: {refused}; {error}", script)) from None
    sys.stdout.write(f"login {login.name}: somebody else made it, and it works\n")


def _change(url: str, login: Login) -> str | None:
    """Why PostgreSQL refused it, or None."""
    try:
        with owner_connection(url) as connection:
            ensure_login(connection, login)
    except psycopg.errors.InsufficientPrivilege as error:
        return str(error).strip().partition("\n")[0]
    return None


def _refusal(cluster: Cluster, reason: str, script: str) -> str:
    return (
        f"{reason}, and {cluster.owner} may not make or change it.\n"
        f"Let a role that may do so run this in the database {cluster.database}, then start again:\n\n{script}"
    )
