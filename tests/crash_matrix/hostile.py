"""A hostile tenant beside the cases: at each point of its action it reports what is not true, while the worker stands there.

It has VMs of its own at each cloud. It reports broken GPUs with their secrets, and names the GPUs of all other VMs. The VM of
the case reports as well: sound GPUs that it does not have, which do nothing.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from sqlalchemy import NullPool, Table, create_engine, text

from app.db.core.urls import sync_url
from app.db.schema.tables import metadata
from app.domain.tags import LEASE, TENANT
from app.local.waiting import wait_until
from cloudsim.gpus import devices
from tests.crash_matrix.group import TYPES
from tests.e2e.cloud import Cloud, Json
from tests.e2e.forgery import Forger
from tests.e2e.people import Tenant
from tests.e2e.stack import Stack
from tests.failpoints.actions import HIT, Action, resumed

HOSTILE_SECONDS = 6.0
"""The thread at the point waits so long at most: a report that needs one of its locks arrives when it continues."""
_REPORT_SECONDS = 2.0
_LAUNCH_SECONDS = 30.0
_LEASES = 2
"""At each cloud: each is replaced when its GPUs are reported as broken."""
_MOST_GPUS = 32
_POLL_SECONDS = 0.05
MARK = "forged-by-"
"""Begins what each report contains. The tenant's id follows."""
_REJECTED = """
    SELECT 'event' AS name, e.lease_id || ' has a VM that was rejected for a GPU that others named' AS row FROM event e
    WHERE e.data::text LIKE '%known_bad_gpu%' AND e.tenant_id <> :hostile
      AND NOT EXISTS (SELECT FROM bad_gpu b WHERE b.tenant_id = e.tenant_id)
    """


class Hostility:
    """The hostile `tenant` for one batch of cases. `of_cases`: the tenant of the cases."""

    def __init__(self, stack: Stack, cloud: Cloud, clouds: Sequence[str], tenant: Tenant, of_cases: Tenant) -> None:
        self._stack = stack
        self._cloud = cloud
        self._clouds = clouds
        self._tenant = tenant
        self._of_cases = of_cases
        self._asking = threading.Lock()
        api_url = stack.credentials.api_url
        self._forger = Forger(api_url, f"{MARK}{tenant.id}", timeout=_REPORT_SECONDS)
        self._of_case = Forger(api_url, f"{MARK}{of_cases.id}", timeout=_REPORT_SECONDS)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Within the block. Afterwards its leases end."""
        over = threading.Event()

        def act() -> None:
            begun: set[Path] = set()
            while not over.wait(_POLL_SECONDS):
                waiting = {hit for hit in self._stack.failpoints.glob(f"*{HIT}") if not resumed(hit).exists()}
                for hit in waiting - begun:
                    with suppress(FileNotFoundError):
                        if json.loads(hit.read_text(encoding="utf-8"))["action"] == Action.HOSTILE:
                            reporting.submit(self._report, hit)
                begun = waiting

        self._have_leases()
        # a launch that is still on its way would meet the faults of the scenario
        wait_until(
            lambda: not self._tenant.leases("queued") + self._tenant.leases("provisioning"), timeout=_LAUNCH_SECONDS
        )
        with ThreadPoolExecutor() as reporting, ThreadPoolExecutor(1) as watching:
            acts = watching.submit(act)
            try:
                yield
            finally:
                over.set()
                acts.result()
        self._tenant.release_all()
        self._forger.close()
        self._of_case.close()

    def _report(self, hit: Path) -> None:
        """What is not answered in time arrives later: the thread at the point may hold a lock that it needs."""
        _, _, key = hit.name.removesuffix(HIT).partition("@")
        victims = self._cloud.vms(TENANT, self._of_cases.id, alive=True)[-_MOST_GPUS:]
        uuids = [devices.uuid(vm["id"], 0) for vm in victims] or ["GPU-invented"]
        own = self._cloud.launches(LEASE, key)
        with suppress(httpx.HTTPError):
            self._of_case.report(own, [f"GPU-{MARK}{self._of_cases.id}"], broken=False)
        with suppress(httpx.HTTPError):
            self._forger.report(self._cloud.launches(TENANT, self._tenant.id), uuids, broken=True)
        resumed(hit).touch()
        self._have_leases()

    def _have_leases(self) -> None:
        with self._asking, suppress(httpx.HTTPError):
            live = self._tenant.leases("!terminal")
            for cloud in self._clouds:
                for _ in range(_LEASES - sum(lease["request"]["providers"] == [cloud] for lease in live)):
                    self._tenant.ask(_wish(cloud))

    def changed(self) -> list[str]:
        """A line for each row outside of its own tenant that its reports have changed."""
        return traces(self._stack.credentials.database_url, self._tenant.id)


def traces(database_url: str, hostile_id: str) -> list[str]:
    """A line for each row outside of the reporting tenant with a mark, and for each VM of others that was rejected for its word."""
    engine = create_engine(sync_url(database_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL ROLE gpulease_worker"))
        rows = [row for query in _QUERIES for row in connection.execute(text(query), {"mark": MARK})]
        rows += connection.execute(text(_REJECTED), {"hostile": hostile_id}).all()
    return [f"forged: {row.name} {row.row}" for row in rows]


def _query(table: Table) -> str:
    """The rows of a table with the mark of a tenant to which they do not belong."""
    foreign = "replace(t::text, :mark || tenant_id, '')" if "tenant_id" in table.c else "t::text"
    return f"SELECT '{table.name}' AS name, t::text AS row FROM {table.name} t WHERE {foreign} LIKE '%' || :mark || '%'"


_QUERIES = tuple(map(_query, metadata.sorted_tables))


def _wish(cloud: str) -> Json:
    return {
        "instance_types": [TYPES[cloud]],
        "providers": [cloud],
        "market": "on_demand",
        "ttl_seconds": 3600,
        "on_gpu_failure": "replace",
        "on_interruption": "replace",
        "wait_seconds": 600,
    }
