"""What a refresh and an inventory write of an account that nobody has used, kept in the test database.

Asking the cloud anew for each test took a third of the time of most.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from app.db.schema.tables import offering
from tests.workers.fleet import ACCOUNT
from workers.providers.aws.clients import AwsClients
from workers.runtime.runtime import Runtime

ACCESS_KEY = "AKIASIMULATED0000001"
"""Of the simulated account."""
_TABLES = ("account", "account_region", "offering", "part_price")
_TYPES = ("g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge", "g5.8xlarge", "g5.12xlarge", "p4d.24xlarge", "p5.48xlarge")
"""What tests ask for. Each of them would read, rank and remove 300 offerings otherwise. A refresh adds the others."""
_COLUMNS = ", ".join(f'"{one.name}"' for one in offering.columns)
_AS_OF_NOW = _COLUMNS.replace('"refreshed_at"', "now()")

_KEEP = [
    "CREATE SCHEMA IF NOT EXISTS seed_view",
    *(f"CREATE TABLE IF NOT EXISTS seed_view.{name} AS TABLE public.{name}" for name in _TABLES),
    f"DELETE FROM seed_view.offering WHERE instance_type NOT IN {_TYPES}",
    "GRANT USAGE ON SCHEMA seed_view TO PUBLIC",
    "GRANT SELECT ON ALL TABLES IN SCHEMA seed_view TO PUBLIC",
]
_SHOW = [
    text(f"INSERT INTO offering ({_COLUMNS}) SELECT {_AS_OF_NOW} FROM seed_view.offering"),
    text("INSERT INTO part_price SELECT * FROM seed_view.part_price"),
    text("""
        UPDATE account_region SET service_quotas = seen.service_quotas, image_gib = seen.image_gib, listed = seen.listed, cycles = seen.cycles,
            listing_calls = seen.listing_calls, listing_seconds = seen.listing_seconds,
            last_listing_started_at = now(), last_complete_listing_at = now()
        FROM seed_view.account_region AS seen
    """),
]
_SHOW_ACCOUNT = text("""
    UPDATE account SET identity = seen.identity, state = seen.state, checked_at = now() FROM seed_view.account AS seen
    RETURNING account.identity
""")


def keep(owner_url: str) -> None:
    """Keeps what the first fleet of a database has just found out."""
    with psycopg.connect(owner_url) as connection:
        for statement in _KEEP:
            connection.execute(statement.encode())


def show(runtime: Runtime) -> None:
    """Writes it into a database that is as new, as of now. The process learns who we are, without a call to the cloud."""
    with runtime.database.begin() as connection:
        for statement in _SHOW:
            connection.execute(statement, {})
        identity = connection.execute(_SHOW_ACCOUNT, {}).scalar_one()
    runtime.catalogue.forget()
    with _answering(identity):
        runtime.accounts.check_identity(ACCOUNT)


@contextmanager
def _answering(identity: str) -> Iterator[None]:
    """STS answers this to whoever asks with our access key. A client of its own and the call would take 8 ms."""

    class Sts:
        def __init__(self, clients: Any) -> None:
            self._clients = clients

        def get_caller_identity(self) -> dict[str, str]:
            self._clients._guard.check(ACCESS_KEY)  # as when the request was signed
            return {"Account": identity}

    def sts(clients: AwsClients) -> Sts:
        return Sts(clients)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AwsClients, "sts", sts)
        yield
