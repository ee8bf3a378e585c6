"""What a lease request asks for: exact GPUs, a market, spellings of models; and what can never succeed."""

from typing import Any

import pytest

from app.api.schemas.gpu_models import GpuModelPage
from app.api.schemas.leases import Lease
from app.api.schemas.regions import RegionPage
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import Fleet

BOTH = ("/v1/leases", "/v1/leases/plan")


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a catalogue that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def body(**changes: Any) -> dict[str, Any]:
    return {"gpu": {"model": "A10G"}, "ttl_seconds": 7200, **changes}


async def planned(caller: Caller, **changes: Any) -> list[tuple[str, str]]:
    plan = (await caller.post("/v1/leases/plan", json=body(**changes))).json()
    return [(one["offering"]["instance_type"], one["offering"]["market"]) for one in plan["candidates"]]


async def test_one_gpu_on_demand_is_the_default(alice: Caller) -> None:
    assert set(await planned(alice)) == {("g5.xlarge", "on_demand")}
    assert set(await planned(alice, market="any")) == {("g5.xlarge", "on_demand"), ("g5.xlarge", "spot")}
    least = await planned(alice, gpu={"model": "A10G", "min_count": 1})
    assert least == [("g5.xlarge", "on_demand")] * 2 + [("g5.12xlarge", "on_demand")]
    assert await planned(alice, gpu={"model": "A10G", "count": 4}) == [("g5.12xlarge", "on_demand")]


async def test_a_request_is_shown_as_it_was_sent(alice: Caller) -> None:
    sent = {"model": "A10G", "count": None, "min_count": 2, "memory_gib": None}
    made = (await alice.post("/v1/leases", json=body(gpu=sent, market="any"))).json()
    read = await alice.get(f"/v1/leases/{made['id']}")
    Lease.model_validate_json(read.content, strict=True)
    for lease in (made, read.json()):
        assert (lease["request"]["gpu"], lease["request"]["market"]) == (sent, "any")
    assert made["estimate"]["price_per_hour"] == "5.672"
    assert made["estimate"]["price_for_term"] == "11.344"


@pytest.mark.parametrize("model", ["a10g", "nvidia-a10g", "A10G-24GB", "A10G:24GB", "NVIDIA A10G"])
async def test_the_response_has_the_catalogues_name_of_a_model(alice: Caller, model: str) -> None:
    made = await alice.post("/v1/leases", json=body(gpu={"model": model}))
    assert made.status_code == 201, made.text
    gpu = made.json()["request"]["gpu"]
    assert (gpu["model"], gpu["memory_gib"]) == ("A10G", 24 if "24" in model else None)


NEVER: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    ({"gpu": {"model": "A10"}}, "unknown_gpu_model", "gpu/model", {"known": ["A100", "A10G"], "nearest": "A10G"}),
    ({"gpu": {"model": "H100"}}, "unknown_gpu_model", "gpu/model", {"nearest": "A100"}),
    (
        {"regions": ["us-east-1", "us-east-11"]},
        "unknown_region",
        "regions/1",
        {"known": ["us-east-1"], "nearest": "us-east-1"},
    ),
    (
        {"gpu": None, "instance_types": ["G5.XLARGE"]},
        "unknown_instance_type",
        "instance_types/0",
        {"nearest": "g5.xlarge"},
    ),
    ({"max_price_per_hour": "0.10"}, "price_cap_too_low", "max_price_per_hour", {"lowest_price_per_hour": "1.006"}),
    (
        {"max_price_per_hour": "0.10", "market": "any"},
        "price_cap_too_low",
        "max_price_per_hour",
        {"lowest_price_per_hour": "0.40"},
    ),
]


@pytest.mark.parametrize(("changes", "code", "pointer", "members"), NEVER)
async def test_what_can_never_succeed_is_422_with_a_code_of_its_own(
    alice: Caller, changes: dict[str, Any], code: str, pointer: str, members: dict[str, Any]
) -> None:
    for path in BOTH:
        answer = await alice.post(path, json=body(**changes))
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["retryable"]) == (422, code, False), answer.text
        assert [error["pointer"] for error in problem["errors"]] == [f"#/body/{pointer}"]
        assert members.items() <= problem.items()
        assert problem["detail"].startswith(pointer.replace("/", "."))


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": {"model": "GB200"}},
        *({"gpu": None, "instance_types": [name]} for name in ("a4x-highgpu-4g", "u-p6e-gb200x72")),
    ],
)
async def test_a_system_with_arm_cpus_is_refused_with_the_reason(alice: Caller, changes: dict[str, Any]) -> None:
    problem = (await alice.post("/v1/leases", json=body(**changes))).json()
    assert problem["code"] in {"unknown_gpu_model", "unknown_instance_type"}
    assert "has Arm CPUs and needs another image" in problem["detail"]


async def test_a_size_of_confidential_vms_is_refused_with_the_reason(alice: Caller) -> None:
    wish = body(gpu=None, instance_types=["Standard_NCC40ads_H100_v5"])
    problem = (await alice.post("/v1/leases", json=wish)).json()
    assert problem["code"] == "unknown_instance_type"
    assert "size of confidential VMs" in problem["detail"]


async def test_a_price_cap_may_fit_later_while_a_price_is_missing(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE offering SET price_per_hour = NULL WHERE zone = 'us-east-1b'")
    answer = await alice.post("/v1/leases", json=body(max_price_per_hour="0.10"))
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (409, "no_offering", True)


async def test_names_are_not_unknown_before_every_region_was_read(alice: Caller, fleet: Fleet) -> None:
    fleet.run("INSERT INTO account_region (account, region) VALUES ('main', 'eu-west-1')")
    for changes in ({"gpu": {"model": "H100"}}, {"regions": ["eu-west-1"]}, {"gpu": None, "instance_types": ["p9"]}):
        answer = await alice.post("/v1/leases", json=body(**changes))
        assert (answer.status_code, answer.json()["code"]) == (409, "no_offering"), answer.text
        assert answer.json()["retryable"]
    assert (await alice.post("/v1/leases", json=body(gpu={"model": "Z9000"}))).json()["code"] == "unknown_gpu_model"


async def test_gpu_models_show_spellings_sizes_and_lowest_prices(alice: Caller) -> None:
    answer = await alice.get("/v1/gpu-models")
    GpuModelPage.model_validate_json(answer.content, strict=True)
    a100, a10g = answer.json()["items"]
    assert (a100["model"], a100["vendor"], a100["memory_gib"]) == ("A100", "NVIDIA", [40])
    assert a100["counts_by_market"] == {"on_demand": [8], "spot": [], "reserved": []}
    assert "A100-80GB" in a100["aliases"]
    assert (a10g["model"], a10g["memory_gib"]) == ("A10G", [24])
    assert a10g["counts_by_market"] == {"on_demand": [1, 4], "spot": [1], "reserved": []}
    assert a10g["min_price_per_gpu_hour"] == {"on_demand": "1.006", "spot": "0.40", "reserved": None}


async def test_a_model_that_no_account_can_buy_is_not_listed(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE offering SET obstacle = 'no_driver_image' WHERE gpu_model = 'A100'")
    fleet.run("UPDATE offering SET obstacle = 'reserved_only' WHERE gpu_model = 'A10G' AND gpu_count = 4")
    (a10g,) = (await alice.get("/v1/gpu-models")).json()["items"]
    assert (a10g["model"], a10g["counts_by_market"]["on_demand"]) == ("A10G", [1])


async def test_regions_show_accounts_and_models(alice: Caller, fleet: Fleet) -> None:
    fleet.run("INSERT INTO account_region (account, region) VALUES ('main', 'eu-west-1')")
    answer = await alice.get("/v1/regions")
    RegionPage.model_validate_json(answer.content, strict=True)
    assert answer.json()["items"] == [
        {"provider": "aws", "region": "eu-west-1", "accounts": ["main"], "gpu_models": []},
        {"provider": "aws", "region": "us-east-1", "accounts": ["main"], "gpu_models": ["A100", "A10G"]},
    ]


async def test_the_list_of_offerings_knows_the_spellings_too(alice: Caller) -> None:
    items = (await alice.get("/v1/offerings", params={"gpu_model": "nvidia-a100-40gb"})).json()["items"]
    assert [one["instance_type"] for one in items] == ["p4d.24xlarge"]
