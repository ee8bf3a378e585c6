"""The database as the documentation sets it up, on Debian's PostgreSQL."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from app.db.core.connections import API_SESSION, WORKER_SESSION, DatabaseUnusable, check_connections
from tests.deployment import documents
from tests.deployment.installation import Installation, Passwords, module
from tests.deployment.needs import POSTGRESQL
from tests.deployment.processes import TrialError, clean_environment, expect, finish, run
from tests.deployment.servers import API_LOGIN, DATABASE, OWNER, WORKER_LOGIN, new_password

Check = Callable[[], str]
"""Does one thing and answers a few words about it. Raises TrialError."""


class DatabaseTrial:
    """Steps that build on one another; the database is ready for the processes afterwards."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._postgres = installation.postgres

    def checks(self) -> dict[str, Check]:
        return {
            "an administrator who is no superuser makes the database and its owner": self.make_owner,
            "an owner who may make no roles is told the SQL, which then does it": self.refuse_and_follow_the_script,
            "migrate gives the logins other passwords; the old ones open nothing": self.rotate,
            "nobody who runs a process has a right too many": self.check_rights,
            "role and time-outs hold from the first statement": self.check_settings,
            "a back-up by the plain owner restores every row": self.back_up,
        }

    def make_owner(self) -> str:
        self._postgres.make_owner(self._installation.passwords.owner)
        version = self._postgres.psql(self._postgres.administrator_url, "SHOW server_version")
        return f"PostgreSQL {version.split()[0]}"

    def refuse_and_follow_the_script(self) -> str:
        postgres, installation = self._postgres, self._installation
        postgres.psql(postgres.administrator_url, f"ALTER ROLE {OWNER} NOCREATEROLE;")
        refused = finish(module("app.server", "migrate"), installation.environment("migrate"))
        expect(refused.returncode == 2, f"migrate ended with {refused.returncode}: {refused.stderr[-500:]}")
        script = refused.stderr.partition("\n\n")[2]
        expect(script.count("CREATE ROLE") == 4, f"not the SQL for two groups and two logins: {refused.stderr}")
        for password in (installation.passwords.api, installation.passwords.worker):
            script = script.replace("'…'", f"'{password}'", 1)
        postgres.psql(postgres.url("administrator", postgres.administrator), script)
        said = installation.migrate()
        expect(said.count("it works") == 2, said)
        postgres.psql(postgres.administrator_url, f"ALTER ROLE {OWNER} CREATEROLE;")
        return "4 roles"

    def rotate(self) -> str:
        old = Passwords(api=new_password(), worker=new_password(), owner=self._installation.passwords.owner)
        self._installation.migrate(GPULEASE_API_PASSWORD=old.api, GPULEASE_WORKER_PASSWORD=old.worker)
        self._installation.migrate()
        for login, password in ((API_LOGIN, old.api), (WORKER_LOGIN, old.worker)):
            try:
                psycopg.connect(self._postgres.url(login, password), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                expect("password authentication failed" in str(error), str(error))
            else:
                raise TrialError(f"{login} still opens with its old password")
        return "passwords with @ / : # in them"

    def check_rights(self) -> str:
        passwords = self._installation.passwords
        for login, password, settings in (
            (API_LOGIN, passwords.api, API_SESSION),
            (WORKER_LOGIN, passwords.worker, WORKER_SESSION),
        ):
            try:
                found = check_connections(self._postgres.url(login, password), settings)
            except DatabaseUnusable as error:
                raise TrialError(f"{login}: {error}") from None
            expect(not found.excess, f"{login} has {found.excess}")
        ordinary = (
            "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'gpulease%' AND (rolsuper OR rolbypassrls OR rolcreatedb)"
        )
        expect(self._postgres.psql(self._postgres.superuser_url, ordinary) == "0", "a role has too many rights")
        return "no superuser, no BYPASSRLS, no CREATEDB; CREATEROLE for the owner alone"

    def check_settings(self) -> str:
        passwords = self._installation.passwords
        for login, password, settings in (
            (API_LOGIN, passwords.api, API_SESSION),
            (WORKER_LOGIN, passwords.worker, WORKER_SESSION),
        ):
            url = self._postgres.url(login, password)
            shown = self._postgres.psql(url, "SELECT current_user, current_setting('tcp_keepalives_idle')")
            expect(shown == f"{settings.role}|10", f"{login}: {shown}")
        return "ALTER ROLE … IN DATABASE … SET"

    def back_up(self) -> str:
        postgres = self._postgres
        owner = self._installation.passwords.owner
        restored = "restored"
        postgres.psql(postgres.administrator_url, f"CREATE DATABASE {restored} OWNER {OWNER};")
        path = os.pathsep.join([str(POSTGRESQL), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        environment = {**clean_environment(), "PATH": path}
        folder = self._installation.folder
        for words, database in (("pg_dump", DATABASE), ("pg_restore", restored)):
            url = postgres.url(OWNER, owner, database)
            commands = documents.block("howto/backup.md", "sh", words)
            run(
                words,
                ["/bin/sh", "-eu", "-c", f"cd {folder}\n{commands}"],
                {**environment, "OWNER_URL": url, "GPULEASE_DATABASE_URL": url},
            )
        tables = self._rows(DATABASE)
        expect(tables == self._rows(restored), "rows differ")
        return f"{len(tables)} tables"

    def _rows(self, database: str) -> dict[str, str]:
        """Of each table a hash of all its rows."""
        url = self._postgres.url("postgres", self._postgres.superuser, database)
        with psycopg.connect(url) as connection:
            names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            rows = "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} t"
            return {
                name: str(connection.execute(psycopg.sql.SQL(rows).format(psycopg.sql.Identifier(name))).fetchone())
                for (name,) in names
            }


def prepare(installation: Installation) -> None:
    """The same in short, for parts that begin with a database that is ready."""
    installation.postgres.make_owner(installation.passwords.owner)
    installation.migrate()
