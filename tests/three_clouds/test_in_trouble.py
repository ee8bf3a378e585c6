"""Three clouds in trouble; `python -m bench.three_clouds` runs the same at length."""

import time
from contextlib import ExitStack

import psutil
import psycopg
import pytest

from app.local.waiting import wait_until
from bench.three_clouds import Installation, mixed
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator, Tenant
from tests.e2e.stack import CALL_TIMEOUT, CONNECT_TIMEOUT, PATIENCE, Stack
from tests.three_clouds.conftest import WORKERS

ONE_A100 = {"gpu": {"model": "A100", "count": 1}, "ttl_seconds": 3600, "wait_seconds": 600}
PROCESSES = "SELECT DISTINCT substr(claim_id::text, 1, 8) FROM lease WHERE claim_id IS NOT NULL"
"""A claim begins with the number of the process that made it."""
SLACK_SECONDS = 3.0
"""For what is no call: the database, Celery, and a machine that is busy."""


@pytest.fixture
def installation(stack: Stack, operator: Operator, cloud: Cloud) -> Installation:
    return Installation(operator, cloud, stack.credentials.database_url)


def test_every_lease_ends_active_or_failed_for_a_true_reason_and_nothing_is_left(installation: Installation) -> None:
    found = mixed(installation, leases=30, bad_seconds=5)
    assert set(found["states"]) <= {"active", "failed"}
    assert found["states"]["active"] >= 10
    assert set(found["active_at"]) == {"aws", "gcp", "azure"}


def test_a_worker_ends_within_one_call_while_all_clouds_hang(stack: Stack, tenant: Tenant, cloud: Cloud) -> None:
    longest = CALL_TIMEOUT + CONNECT_TIMEOUT
    with ExitStack() as faults, psycopg.connect(stack.credentials.database_url, autocommit=True) as database:
        for provider in ("aws", "gcp", "azure"):
            faults.enter_context(cloud.fault("*", "hang", provider=provider, times=None, delay_seconds=600))
        for _ in range(10):
            tenant.create(ONE_A100)
        assert stack.kill("worker") == WORKERS
        killed = set(database.execute(PROCESSES).fetchall())
        assert wait_until(lambda: bool(set(database.execute(PROCESSES).fetchall()) - killed), timeout=PATIENCE)
        began = time.monotonic()
        ending = stack.processes("worker")
        assert len(ending) == WORKERS
        for worker in ending:
            worker.terminate()
        psutil.wait_procs(ending, timeout=PATIENCE)
        assert time.monotonic() - began < longest + SLACK_SECONDS
