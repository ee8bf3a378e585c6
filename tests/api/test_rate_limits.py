"""How often a tenant may ask."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.exceptions import RedisError

from app.api.http import rate_limits
from app.api.http.rate_limits import RateLimiter, SharedCounts
from app.local.ports import free_port
from app.observability.metrics import ApiMetrics
from app.prerequisites import ensure_operator_key
from app.settings import Settings
from tests.api.conftest import Caller, new_tenant, serving
from tests.api.fleet import Fleet
from tests.harness.redis_proxy import ENDING, REPLIES, running


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1_000_000_020.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limiter(clock: Clock, name: str = "test") -> RateLimiter:
    return RateLimiter("3/hour", name=name, clock=clock)


async def test_requests_over_the_limit_are_refused_until_the_window_ends(clock: Clock) -> None:
    limits = limiter(clock)
    assert [limits.hit("a").allowed for _ in range(4)] == [True, True, True, False]
    assert limits.hit("b").allowed
    clock.now += limits.hit("a").reset
    assert limits.hit("a").allowed


def test_many_identities_push_out_the_one_that_was_not_used_for_longest(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "_REMEMBERED", 10)
    limits = limiter(clock)
    for _ in range(3):
        limits.hit("locked out")
    limits.hit("unused")
    for number in range(100):
        limits.hit(f"stranger {number}")
        assert not limits.peek("locked out").allowed
    assert limits.peek("unused").remaining == 3
    assert [limits.peek(f"stranger {number}").remaining for number in (98, 99)] == [2, 2]


async def test_two_processes_share_one_limit(broker_url: str, clock: Clock) -> None:
    one, two = limiter(clock), limiter(clock)
    counts = [SharedCounts([each], broker_url, ApiMetrics(), clock=clock) for each in (one, two)]
    one.hit("a")
    two.hit("a")
    for each, count in ((one, counts[0]), (two, counts[1]), (one, counts[0])):
        await count.sync()
        each.hit("a")
    assert not one.hit("a").allowed
    for count in counts:
        await count.close()


async def test_limiters_count_apart_and_their_counts_end_with_the_window(
    broker_url: str, clock: Clock, kept_redis: redis.Redis
) -> None:
    ones, twos = ([limiter(clock, "x"), limiter(clock, "y")] for _ in range(2))
    for limits in (ones, twos):
        counts = SharedCounts(limits, broker_url, ApiMetrics(), clock=clock)
        for hits, each in enumerate(limits, 1):
            for _ in range(hits):
                each.hit("a")
        await counts.sync()
        await counts.close()
    assert [each.peek("a").remaining for each in twos] == [1, 0]
    keys = kept_redis.keys("gpulease:rate:*")
    assert len(keys) == 2
    assert all(3600 < kept_redis.ttl(key) <= 7200 for key in keys)


@pytest.mark.parametrize("wrong", [-86_400.0, -3600.0, 0.0, 3600.0, 86_400.0])
async def test_hosts_with_wrong_clocks_share_one_limit(broker_url: str, kept_redis: redis.Redis, wrong: float) -> None:
    clocks = (lambda: time.time() + wrong, time.time)
    limits = [RateLimiter("4/hour", name="test", clock=each) for each in clocks]
    counts = [
        SharedCounts([each], broker_url, ApiMetrics(), clock=clock) for each, clock in zip(limits, clocks, strict=True)
    ]
    for each in limits:
        each.hit("a")  # before the process has reached Redis
    for count in counts:
        await count.sync()
    for each, count in zip(limits, counts, strict=True):
        each.hit("a")
        await count.sync()
    assert [each.peek("a").remaining for each in limits] == [1, 0]
    assert len(kept_redis.keys("gpulease:rate:*")) == 1
    resets = [each.peek("a").reset for each in limits]
    assert abs(resets[0] - resets[1]) <= 1
    for count in counts:
        await count.close()


async def test_without_redis_each_process_counts_alone_and_forgets_nothing(clock: Clock) -> None:
    limits = limiter(clock)
    counts = SharedCounts([limits], f"redis://127.0.0.1:{free_port()}", ApiMetrics(), clock=clock)
    limits.hit("a")
    with pytest.raises((RedisError, OSError)):
        await counts.sync()
    assert limits.hit("a").remaining == 1
    await counts.close()


async def test_whether_redis_answers_is_known_without_a_request_for_as_long_as_it_is_away(
    broker_url: str, clock: Clock
) -> None:
    metrics = ApiMetrics()
    with running(broker_url) as proxy:
        counts = SharedCounts([limiter(clock)], proxy.url, metrics, clock=clock)

        async def answers() -> float | None:
            clock.now += 5
            await counts.keep_in_step()
            return metrics.registry.get_sample_value("gpulease_redis_up")

        assert await answers() == 1
        proxy.refuse("LOADING")
        assert [await answers() for _ in range(3)] == [0, 0, 0]
        proxy.relent()
        assert await answers() == 1
        await counts.close()


@pytest.mark.parametrize("command", ["HINCRBY", "EXPIRE"])
async def test_what_redis_refuses_is_counted_once_later(
    broker_url: str, clock: Clock, kept_redis: redis.Redis, command: str
) -> None:
    """Each error reply that leaves the connection open, at each command."""
    limits = RateLimiter("100/hour", name="test", clock=clock)
    replies = sorted(set(REPLIES) - ENDING)
    with running(broker_url) as proxy:
        counts = SharedCounts([limits], proxy.url, ApiMetrics(), clock=clock)
        for reply in replies:
            limits.hit("a")
            proxy.refuse(reply, command)
            with pytest.raises(RedisError):
                await counts.sync()
            proxy.relent()
        await counts.sync()
        await counts.close()
    assert limits.peek("a").remaining == 100 - len(replies)
    [key] = kept_redis.keys("gpulease:rate:*")
    assert kept_redis.hgetall(key) == {b"a": str(len(replies)).encode()}
    assert 3600 < kept_redis.ttl(key) <= 7200


async def test_answers_tell_what_is_left_and_a_refusal_when_to_come_back(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    async with serving(make_settings(rate_limit="2/hour")) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        first = await operator.get("/v1/me")
        assert first.headers["ratelimit-policy"] == '"requests";q=2;w=3600'
        assert first.headers["ratelimit"].startswith('"requests";r=1;t=')
        await operator.get("/v1/me")
        refused = await operator.get("/v1/me")
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        assert refused.headers["ratelimit"].startswith('"requests";r=0;t=')


async def test_one_tenants_requests_do_not_count_for_another(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    async with serving(make_settings(rate_limit="5/hour")) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        alice = await new_tenant(operator, "alice", gpus=1)
        for _ in range(5):
            await alice.get("/v1/me")
        assert (await alice.get("/v1/me")).status_code == 429
        assert (await operator.get("/v1/me")).status_code == 200


WISH = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_a_tenant_can_change_only_so_much_in_an_hour(
    make_settings: Callable[..., Settings], database_url: str, fleet: Fleet
) -> None:
    """Each lease that is made and given back leaves rows behind, whatever the quota of leases is."""
    async with serving(make_settings(write_rate_limit="6/hour")) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        alice, bob = [await new_tenant(operator, name, gpus=8, leases=1) for name in ("alice", "bob")]
        for _ in range(6):
            made = await alice.post("/v1/leases", json=WISH)
            assert made.status_code == 201
            assert (await alice.delete(f"/v1/leases/{made.json()['id']}")).status_code == 202
            fleet.finish(made.json()["id"])
        refused = await alice.post("/v1/leases", json=WISH)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert "change" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) > 0
        for path, body in ((f"/v1/tenants/{alice.tenant_id}/keys", {"name": "k", "role": "viewer"}),):
            assert (await alice.post(path, json=body)).status_code == 429
        assert (await bob.post("/v1/leases", json=WISH)).status_code == 201
        assert (await alice.get("/v1/leases")).status_code == 200
        assert (await alice.post("/v1/leases/plan", json=WISH)).status_code == 200


async def test_a_lease_can_be_given_back_whatever_was_changed(
    make_settings: Callable[..., Settings], database_url: str, fleet: Fleet
) -> None:
    async with serving(make_settings(write_rate_limit="2/hour")) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        alice = await new_tenant(operator, "alice", gpus=8, leases=2)
        made = [(await alice.post("/v1/leases", json=WISH)).json()["id"] for _ in range(2)]
        assert (await alice.patch(f"/v1/leases/{made[0]}", json={"name": "n"})).status_code == 429
        for lease_id in made:
            assert (await alice.delete(f"/v1/leases/{lease_id}")).status_code == 202


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/leases", WISH, 409),
        ("/v1/leases", {"gpu": {}}, 422),
        ("/v1/webhooks", {"url": "https://127.0.0.1/"}, 422),
        ("/v1/leases/lease_01h455vb4pex5vsknk084sn02q/extend", {"extend_by_seconds": 60}, 404),
    ],
)
async def test_a_refused_change_counts_as_a_change(
    make_settings: Callable[..., Settings],
    database_url: str,
    fleet: Fleet,
    path: str,
    body: dict[str, Any],
    status: int,
) -> None:
    """It costs the look-ups, the locks and the audit of one. A program that repeats it each second has room for an hour."""
    async with serving(make_settings(write_rate_limit="3/hour")) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        alice = await new_tenant(operator, "alice", gpus=8, leases=0)
        answers = [(await alice.post(path, json=body)).status_code for _ in range(5)]
        assert answers == [status] * 3 + [429] * 2
        assert (await alice.get("/v1/leases")).status_code == 200


async def test_a_costly_request_counts_as_many_and_a_refused_one_as_one(clock: Clock) -> None:
    limits = RateLimiter("50/minute", name="test", clock=clock)
    assert [limits.hit("a", 20).allowed for _ in range(3)] == [True, True, False]
    assert limits.hit("a").remaining == 8
