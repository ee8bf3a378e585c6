"""Everything is killed while leases are asked for. The tenant only ever asks again."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

import redis

from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant, ids
from tests.e2e.stack import Stack
from tests.e2e.truth import differences, one_vm_each

WISHES = 40


def test_leases_survive_the_death_of_every_process(
    tenant: Tenant, operator: Operator, stack: Stack, cloud: Cloud
) -> None:
    def forget_hints() -> None:
        with redis.Redis.from_url(stack.credentials.broker_url) as broker:
            broker.flushall()

    def kill(*programs: str) -> None:
        assert stack.kill(*programs) >= len(programs)

    made = _create_all(
        tenant,
        {
            4: forget_hints,
            10: lambda: kill("redis"),
            16: lambda: kill("postgres"),
            24: lambda: kill("api", "worker", "inventory"),
            32: forget_hints,
        },
    )
    assert len(made) == WISHES
    stack.wait_until_ready()
    assert ids(tenant.wait_for_all("active", WISHES)) == made
    assert tenant.used()["leases"] == WISHES
    assert differences(operator, cloud, stack.credentials.database_url) == []
    assert one_vm_each(cloud, made)
    tenant.release_all()


def _create_all(tenant: Tenant, disasters: Mapping[int, Callable[[], None]]) -> set[str]:
    """The ids of the new leases; after so many of them each disaster happens."""
    made = set()
    with ThreadPoolExecutor(4) as pool:
        orders = [
            pool.submit(tenant.create_at_any_rate, {**ONE_A10G, "name": f"wish {n}"}, f"wish-{n}")
            for n in range(WISHES)
        ]
        for count, order in enumerate(as_completed(orders), start=1):
            made.add(order.result())
            if count in disasters:
                disasters[count]()
    return made
