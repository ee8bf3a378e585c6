"""Limits."""

import asyncio
from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet


def limits(**amounts: int | str | None) -> dict[str, Any]:
    names = {"gpus_A100": "gpus:A100"}
    return {"limits": [{"resource": names.get(name, name), "limit": limit} for name, limit in amounts.items()]}


async def test_limits_are_set_by_name_and_the_others_stay(operator: Caller, alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/quotas"
    answer = await operator.patch(path, json=limits(gpus_A100=4, spend_per_hour="99.5"))
    assert answer.status_code == 200, answer.text
    rows = {row["resource"]: row for row in answer.json()["items"]}
    assert {name: (row["limit"], row["used"], row["available"]) for name, row in rows.items()} == {
        "gpus": (8, 0, 8),
        "gpus:A100": (4, 0, 4),
        "leases": (10, 0, 10),
        "spend_per_hour": ("99.50", "0.00", "99.50"),
    }
    assert (await alice.get("/v1/quotas")).json() == answer.json()
    assert (await alice.get(path)).json() == answer.json()


async def test_put_replaces_all_limits(operator: Caller, alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/quotas"
    answer = await operator.put(path, json=limits(gpus_A100=4))
    rows = {row["resource"]: row["limit"] for row in answer.json()["items"]}
    assert rows == {"gpus": None, "gpus:A100": 4, "leases": None, "spend_per_hour": None}
    (entry, *_) = (await operator.get("/v1/audit?type=quota.set")).json()["items"]
    assert entry["after"] == rows
    assert (await operator.put(path, json={"limits": []})).json()["items"][1]["limit"] is None


async def test_a_null_limit_means_none_for_gpus_and_any_for_the_rest(operator: Caller, alice: Caller) -> None:
    answer = await operator.patch(f"/v1/tenants/{alice.tenant_id}/quotas", json=limits(gpus=None, leases=None))
    rows = {row["resource"]: row["available"] for row in answer.json()["items"]}
    assert (rows["gpus"], rows["leases"]) == (0, None)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#/body/limits"),
        ({"limits": [{"resource": "gpus", "limit": "3"}]}, "#/body/limits/0"),
        ({"limits": [{"resource": "gpus", "limit": "1.5"}]}, "#/body/limits/0"),
        ({"limits": [{"resource": "gpus", "limit": -1}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "gpus", "limit": 1.5}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "gpus", "limit": True}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "gpus", "limit": None}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "spend_per_hour", "limit": 100}]}, "#/body/limits/0"),
        ({"limits": [{"resource": "gpus", "limit": "NaN"}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "gpus", "limit": "1e99"}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "gpus", "limit": "9" * 5000}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "spend_per_hour", "limit": "0.0000001"}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "cpus", "limit": 1}]}, "#/body/limits/0/resource"),
        ({"limits": [{"resource": "gpus"}]}, "#/body/limits/0/limit"),
        ({"limits": [{"resource": "gpus", "limit": 1}, {"resource": "gpus", "limit": 2}]}, "#/body/limits"),
    ],
)
async def test_a_wrong_limit_is_pointed_at(operator: Caller, alice: Caller, body: object, pointer: str) -> None:
    refused = await operator.put(f"/v1/tenants/{alice.tenant_id}/quotas", json=body)
    assert refused.status_code == 422, refused.text
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


async def test_an_operator_has_no_quotas_of_its_own(operator: Caller) -> None:
    assert (await operator.get("/v1/quotas")).status_code == 422


async def test_setting_limits_and_creating_leases_never_wait_for_each_other_in_a_circle(
    operator: Caller, alice: Caller, database_url: str
) -> None:
    Fleet(database_url).catalogue()
    path = f"/v1/tenants/{alice.tenant_id}/quotas"
    await operator.put(path, json=limits(gpus=1000, leases=1000))
    lease = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}

    async def set_and_create() -> set[int]:
        answers = [
            await operator.put(path, json=limits(gpus=1000, leases=1000)),
            await alice.post("/v1/leases", json=lease),
        ]
        return {answer.status_code for answer in answers}

    seen = await asyncio.gather(*(set_and_create() for _ in range(40)))
    assert set[int]().union(*seen) == {200, 201}


async def test_limits_that_changed_meanwhile_are_not_overwritten(operator: Caller, alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/quotas"
    etag = (await operator.get(path)).headers["etag"]
    first = await operator.put(path, json=limits(gpus=9), headers={"If-Match": etag})
    assert first.status_code == 200
    second = await operator.put(path, json=limits(gpus=7), headers={"If-Match": etag})
    assert (second.status_code, second.json()["code"]) == (412, "version_conflict")
    third = await operator.put(path, json=limits(gpus=7), headers={"If-Match": first.headers["etag"]})
    assert third.status_code == 200
