"""An installation in which all is well, and what goes wrong in it: each alert has its situation."""

import time
from collections.abc import Callable, Mapping
from typing import LiteralString

import psycopg
import pytest
from fastapi import FastAPI
from prometheus_client import generate_latest
from psycopg.types.json import Jsonb

from app.db.operations.invariants import CHECKS
from app.services.metrics import MetricsSnapshot
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.observability.promql import Scrape, scrape
from workers.runtime.metrics import WorkerMetrics

SCRAPED_EVERY = 60.0
NEW = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}


class World:
    """One API process, one worker's metrics, one tenant with an active lease and a queued one."""

    def __init__(self, app: FastAPI, tenant: Caller, fleet: Fleet) -> None:
        self.app = app
        self.tenant = tenant
        self.fleet = fleet
        self.worker = WorkerMetrics()
        self.api_answers = True
        self.database_answers = True
        self.host_clock_ahead = 0.0
        self.active = ""
        self.queued = ""
        self._scrapes = 0

    async def settle(self) -> None:
        """All is well, and there is something to tell of everything."""
        fleet = self.fleet
        fleet.catalogue()
        fleet.run("UPDATE account_region SET last_complete_listing_at = now(), listed = 1, listing_seconds = 0.2")
        fleet.run("UPDATE account SET created_at = now() - interval '1 day'")
        fleet.run("INSERT INTO worker_heartbeat (name, kind) VALUES ('w', 'worker'), ('i', 'inventory')")
        fleet.run(
            "INSERT INTO periodic_job (name, kind, account, region, last_ok_at, interval_seconds)"
            " VALUES ('o', 'offerings', 'main', 'us-east-1', now(), 3600)"
        )
        for check in CHECKS:
            fleet.run("INSERT INTO invariant (name, violations, examples) VALUES (%s, 0, '[]')", check.name)
        self.active, self.queued = [await self._lease() for _ in range(2)]
        fleet.activate(self.active)
        fleet.run("UPDATE lease SET next_due = now() + interval '1 hour' WHERE id = %s", self.queued)
        fleet.run("UPDATE lease SET next_due = NULL WHERE id = %s", self.active)

    async def _lease(self) -> str:
        made = await self.tenant.post("/v1/leases", json=NEW)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    async def scrape(self) -> Scrape:
        """What Prometheus sees of API and worker, a minute after the last time."""
        texts = [generate_latest(self.worker.registry).decode()]
        if self.api_answers:
            texts.append(await self._api())
        self._scrapes += 1
        return scrape(SCRAPED_EVERY * self._scrapes, *texts)

    async def _api(self) -> str:
        service = self.app.state.services.metrics
        service._cache = None if self.database_answers else (service._clock(), MetricsSnapshot(rows={}, seconds=0.0))
        right = time.time
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: right() + self.host_clock_ahead)
            answer = await self.tenant.get("/metrics")
        assert answer.status_code == 200, answer.text
        return answer.text

    # --- what goes wrong ----------------------------------------------------------------------------------

    def run(self, statement: LiteralString, *parameters: str) -> None:
        self.fleet.run(statement, *parameters)

    def orphan(self, cause: str, *, lease_id: str | None = None) -> None:
        self.fleet.run(
            "INSERT INTO orphan (account, region, instance_id, provider, zone, instance_type, market, cause, tags, lease_id, attempt_n)"
            " VALUES ('main', 'us-east-1', %s, 'aws', 'us-east-1a', 'g5.xlarge', 'spot', %s, '{}', %s, 1) ON CONFLICT DO NOTHING",
            f"i-{cause}",
            cause,
            lease_id,
        )

    def outlived(self) -> None:
        """Its lease ended four minutes ago, and the first listing after that sees its VM just now."""
        self.fleet.finish(self.active)
        self.run("UPDATE attempt SET ended_at = now() - interval '4 minutes' WHERE lease_id = %s", self.active)
        self.orphan("ended_lease", lease_id=self.active)

    def refused(self, kind: str, *, times: int = 1) -> None:
        """So many launches of the queued lease, the newest ones there."""
        for _ in range(times):
            [row] = self.fleet.run("SELECT attempts_count AS n, now() FROM lease WHERE id = %s", self.queued)
            error = Jsonb({"class": kind, "code": "Code", "message": "no"})
            ended = {"state": "refused", "ended_at": row["now"], "clean": True}
            nothing = {"instance_id": None, "vm_state": None}
            self.fleet.attempt(self.queued, row["n"] + 1, error=error, **ended, **nothing)

    def requests(self, status: int, count: int) -> None:
        for _ in range(count):
            self.app.state.metrics.request("GET", "/v1/leases", status, 0.01)

    def calls(self, count: int, error: str | None = None) -> None:
        for _ in range(count):
            self.worker.called("aws", "main", "launch", 0.2, error)

    def failing_requests(self) -> None:
        self.requests(500, 5)
        self.requests(200, 100)

    def failing_calls(self) -> None:
        self.calls(10)
        self.calls(5, "OutcomeUnknown")

    def no_redis(self) -> None:
        """The process, which asks Redis all the time, learns nothing else until `answer_again`."""
        metrics = self.app.state.metrics
        metrics.redis_answered(up=False)
        vars(metrics)["redis_answered"] = lambda **_: None

    def buggy(self) -> None:
        """A bug that nobody expects, once a minute."""
        self.worker.step_failed("bug")

    def throttled(self) -> None:
        """The provider has answered "later" to every create call of an hour."""
        created = {"state": "sent", "instance_id": None, "vm_state": None}
        self.run("UPDATE lease SET state = 'provisioning' WHERE id = %s", self.queued)
        [row] = self.fleet.run("SELECT attempts_count AS n FROM lease WHERE id = %s", self.queued)
        self.fleet.run("UPDATE attempt SET state = 'refused', ended_at = now() WHERE lease_id = %s", self.queued)
        self.fleet.attempt(self.queued, row["n"] + 1, **created)
        self.run("UPDATE attempt SET created_at = now() - interval '1 hour' WHERE state = 'sent'")

    def slow(self) -> None:
        for seconds in (100.0, 2000.0, 2000.0):
            self.worker.became_ready("aws", "spot", seconds)

    def wrong_clock(self) -> None:
        """The host's clock is six seconds ahead of the database's."""
        self.host_clock_ahead = 6.0

    def no_api(self) -> None:
        self.api_answers = False

    def no_database(self) -> None:
        self.database_answers = False

    def answer_again(self) -> None:
        if vars(self.app.state.metrics).pop("redis_answered", None):
            self.app.state.metrics.redis_answered(up=True)
        self.api_answers = self.database_answers = True
        self.host_clock_ahead = 0.0

    def drifted(self) -> None:
        """Undone by `mend`: the fixture looks at the invariants after the test."""
        self.run("UPDATE quota SET used = used + 1 WHERE resource = 'gpus'")

    def mend(self) -> None:
        """No test leaves data that breaks an invariant."""
        with psycopg.connect(self.fleet.url, autocommit=True) as owner:
            owner.execute("SET ROLE gpulease_worker")
            owner.execute(
                "UPDATE quota q SET used = (SELECT coalesce(sum(amount), 0) FROM quota_claim c"
                " WHERE c.tenant_id = q.tenant_id AND c.resource = q.resource)"
            )


Break = Callable[[World], None]


def _sql(statement: LiteralString) -> Break:
    return lambda world: world.run(statement)


SITUATIONS: Mapping[str, Break] = {
    "GpuleaseGarbageCollectionStalled": _sql(
        "UPDATE account_region SET last_complete_listing_at = now() - interval '6 minutes'"
    ),
    "GpuleaseDeadlineTagBehind": _sql(
        "UPDATE lease SET deadline_applied = expires_at - interval '1 hour', updated_at = now() - interval '2 minutes'"
        " WHERE state = 'active'"
    ),
    "GpuleaseQueueStalled": _sql("UPDATE lease SET next_due = now() - interval '2 minutes' WHERE state = 'queued'"),
    "GpuleaseEventsStalled": _sql("UPDATE event SET at = now() - interval '2 minutes' WHERE sequence IS NULL"),
    "GpuleaseWebhooksStalled": _sql(
        "INSERT INTO webhook (id, tenant_id, url, position, next_due) SELECT 'webhook_1', id, 'https://a.example', 0,"
        " now() - interval '6 minutes' FROM tenant LIMIT 1 ON CONFLICT DO NOTHING"
    ),
    "GpuleaseGhostLease": _sql("UPDATE attempt SET vm_state = 'gone', vm_state_at = now() - interval '4 minutes'"),
    "GpuleaseSettlingTooLong": _sql(
        "UPDATE attempt SET state = 'settling', billing_started_at = NULL, settling_since = now() - interval '31 minutes'"
    ),
    "GpuleaseReleaseStuck": _sql(
        "UPDATE lease SET state = 'releasing', desired = 'end', release_requested_at = now() - interval '16 minutes'"
    ),
    "GpuleaseOrphanVm": World.outlived,
    "GpuleaseVmWithoutRow": lambda world: world.orphan("lost_row"),
    "GpuleaseUnlistedCharge": _sql(
        "INSERT INTO invoice_import (id, file_name, file_hash, provider, month, lines, unlisted_resources)"
        " VALUES ('import_1', 'focus.csv', '', 'aws', date_trunc('month', now()), 1, 1) ON CONFLICT DO NOTHING"
    ),
    "GpuleaseQuotaDrift": World.drifted,
    "GpuleaseInvariantBroken": _sql("UPDATE invariant SET violations = 1, since = now()"),
    "GpuleaseOnHold": _sql("""UPDATE installation SET hold = '{"reason": "another timeline"}'"""),
    "GpuleaseLaunchesStopped": _sql("""UPDATE installation SET launches_stopped = '{"by": "key_1"}'"""),
    "GpuleaseAccountCordoned": _sql("""UPDATE account SET cordoned = '{"by": "key_1"}'"""),
    "GpuleaseAccountSetAside": _sql("UPDATE account SET state = 'failing'"),
    "GpuleaseAccountBlocked": _sql("UPDATE account_region SET blocked_until = now() + interval '10 minutes'"),
    "GpuleaseDatabaseDown": World.no_database,
    "GpuleaseMetricsMissing": World.no_api,
    "GpuleaseProcessesMissing": _sql(
        "UPDATE worker_heartbeat SET seen_at = now() - interval '2 minutes' WHERE kind = 'inventory'"
    ),
    "GpuleaseHostLost": _sql(
        "INSERT INTO worker_heartbeat (name, kind, host, seen_at)"
        " VALUES ('w2', 'worker', 'host-2', now() - interval '2 minutes') ON CONFLICT DO NOTHING"
    ),
    "GpuleaseClockWrong": World.wrong_clock,
    "GpuleaseDeadmanSilent": _sql(
        "INSERT INTO account (name, provider, config, state) VALUES ('azure', 'azure', '{}', 'ok') ON CONFLICT DO NOTHING"
    ),
    "GpuleaseApiFails": World.failing_requests,
    "GpuleaseRedisDown": World.no_redis,
    "GpuleaseStepsFail": World.buggy,
    "GpuleaseCloudCallsFail": World.failing_calls,
    "GpuleaseNoCapacity": lambda world: world.refused("ProviderQuotaExceeded"),
    "GpuleaseLaunchesRefused": lambda world: world.refused("InvalidSpec", times=3),
    "GpuleaseLaunchStuck": World.throttled,
    "GpuleaseAccountChecksFail": _sql(
        "INSERT INTO account_check (account, checked_at, failed) VALUES ('main', now(), 4) ON CONFLICT DO NOTHING"
    ),
    "GpuleaseSlowToReady": World.slow,
    "GpuleaseJobLate": _sql("UPDATE periodic_job SET last_ok_at = now() - interval '4 hours'"),
}
"""In an order in which none hides the next."""
