"""Many at once: quota and repetition."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant


def test_of_64_at_once_a_quota_of_10_admits_10(tenant: Tenant, operator: Operator) -> None:
    operator.limit_gpus(tenant.id, 10)

    def ask(n: int) -> httpx.Response:
        return tenant.ask({**ONE_A10G, "name": f"wish {n}"})

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(ask, range(64)))
    assert Counter(answer.status_code for answer in answers) == {201: 10, 409: 54}
    for refusal in (answer.json() for answer in answers if answer.status_code == 409):
        assert refusal["code"] == "quota_exceeded"
        numbers = {name: refusal[name] for name in ("resource", "limit", "used", "asked") if name in refusal}
        assert numbers == {"resource": "gpus", "limit": 10, "used": 10, "asked": 1}, refusal
    tenant.wait_for_all("active", 10)
    assert tenant.used()["gpus"] == 10
    tenant.release_all()
    assert tenant.used() == {}


def test_the_same_create_16_times_at_once_is_one_lease(tenant: Tenant, cloud: Cloud) -> None:
    wish = {**ONE_A10G, "name": "once"}
    with ThreadPoolExecutor(16) as pool:
        made = set(pool.map(lambda _: tenant.create_at_any_rate(wish, "the-same-key"), range(16)))
    (lease_id,) = made
    tenant.wait(lease_id, "active")
    assert [lease["id"] for lease in tenant.leases()] == [lease_id]
    assert len(cloud.vms_of(lease_id)) == 1
    again = tenant.ask(wish, "the-same-key")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert tenant.ask({**wish, "name": "twice"}, "the-same-key").json()["code"] == "idempotency_mismatch"
