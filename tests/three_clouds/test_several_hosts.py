"""Several API and worker processes over one PostgreSQL and one Redis: any of them may die, and all be replaced by a new
version after its migration, while leases are asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

import psycopg
import pytest

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant, ids
from tests.e2e.stack import PATIENCE, Stack
from tests.e2e.truth import differences, one_vm_each
from tests.three_clouds.conftest import APIS, WORKERS

WISHES = 20

MIGRATION = """
    ALTER TABLE lease ADD COLUMN of_the_next_version text;
    CREATE INDEX ix_lease_of_the_next_version ON lease (of_the_next_version);
    UPDATE alembic_version SET version_num = 'next'
"""


@pytest.fixture
def migrate(stack: Stack) -> Iterator[Callable[[], None]]:
    """Brings the schema to the next version, until the end of the test."""
    with psycopg.connect(stack.credentials.database_url, autocommit=True) as connection:
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchall()

        def to_the_next() -> None:
            connection.execute(MIGRATION)

        yield to_the_next
        connection.execute("ALTER TABLE lease DROP COLUMN IF EXISTS of_the_next_version")
        connection.execute("UPDATE alembic_version SET version_num = %s", version)


def test_processes_die_and_are_replaced_by_a_new_version_without_a_lease_being_lost(
    stack: Stack, tenant: Tenant, operator: Operator, cloud: Cloud, migrate: Callable[[], None]
) -> None:
    def counts() -> tuple[int, int]:
        return len(stack.processes("api")), len(stack.processes("worker"))

    def replace(program: str) -> Callable[[], None]:
        return lambda: stack.kill_one(program)

    orders = {
        4: replace("worker"),
        8: migrate,
        9: replace("api"),
        11: replace("worker"),
        13: replace("api"),
        16: replace("inventory"),
    }
    assert counts() == (APIS, WORKERS)
    made = _create(lambda n: tenant.create_at_any_rate({**ONE_A10G, "name": f"wish {n}"}, f"wish-{n}"), orders)
    stack.wait_until_ready()
    assert wait_until(lambda: counts() == (APIS, WORKERS), timeout=PATIENCE)
    assert ids(tenant.wait_for_all("active", WISHES)) == made
    assert differences(operator, cloud, stack.credentials.database_url) == []
    assert one_vm_each(cloud, made)
    tenant.release_all()
    assert tenant.used() == {}


def _create(create: Callable[[int], str], disasters: Mapping[int, Callable[[], None]]) -> set[str]:
    """The ids of the leases; after so many of them each disaster happens. Any error that is not retryable is raised."""
    made = set()
    with ThreadPoolExecutor(4) as pool:
        for count, order in enumerate(as_completed([pool.submit(create, n) for n in range(WISHES)]), start=1):
            made.add(order.result())
            disasters.get(count, lambda: None)()
    return made
