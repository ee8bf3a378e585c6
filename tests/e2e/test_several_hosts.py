"""Several API and worker processes over one PostgreSQL and one Redis: any of them may die, and all be replaced by a new
version after its migration, while leases are asked for.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import psycopg
import pytest

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, ids
from tests.e2e.stack import PATIENCE, Stack, running
from tests.e2e.truth import differences, one_vm_each

WISHES = 20
APIS, WORKERS = 2, 2

MIGRATION = """
    ALTER TABLE lease ADD COLUMN of_the_next_version text;
    CREATE INDEX ix_lease_of_the_next_version ON lease (of_the_next_version);
    UPDATE alembic_version SET version_num = 'next'
"""


@pytest.fixture
def hosts() -> Iterator[Stack]:
    arguments = ("--api", str(APIS), "--workers", str(WORKERS), "--clouds", "aws")
    with tempfile.TemporaryDirectory(prefix="gpulease-e2e-") as folder, running(Path(folder), *arguments) as up:
        yield up


def test_processes_die_and_are_replaced_by_a_new_version_without_a_lease_being_lost(hosts: Stack) -> None:
    said = hosts.credentials
    assert (hosts.count("api"), hosts.count("worker")) == (APIS, WORKERS)
    with Operator(said.api_url, said.operator_key) as operator, Cloud(said.cloudsim_url) as cloud:
        tenant = operator.tenant("several hosts", WISHES)

        def migrate() -> None:
            with psycopg.connect(said.database_url) as connection:
                connection.execute(MIGRATION)

        def replace(program: str) -> Callable[[], None]:
            return lambda: hosts.kill_one(program)

        with tenant:
            orders = {
                4: replace("worker"),
                8: migrate,
                9: replace("api"),
                11: replace("worker"),
                13: replace("api"),
                16: replace("inventory"),
            }
            made = _create(lambda n: tenant.create_at_any_rate({**ONE_A10G, "name": f"wish {n}"}, f"wish-{n}"), orders)
            hosts.wait_until_ready()
            assert wait_until(lambda: (hosts.count("api"), hosts.count("worker")) == (APIS, WORKERS), timeout=PATIENCE)
            assert ids(tenant.wait_for_all("active", WISHES)) == made
            assert differences(operator, cloud, said.database_url) == []
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
