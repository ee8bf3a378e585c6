"""POST /v1/sizings: memory by part, the GPUs that have it, and a lease request that creates a lease."""

from typing import Any

import pytest

from tests.api.conftest import Caller, new_tenant
from tests.api.fleet import Fleet
from tests.domain.sizing.test_configs import LLAMA

WIDE = {**LLAMA, "num_hidden_layers": 1000, "num_key_value_heads": 32}
DEEPSEEK = {**LLAMA, "model_type": "deepseek_v3", "kv_lora_rank": 512}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def sized(caller: Caller, **body: Any) -> dict[str, Any]:
    made = await caller.post("/v1/sizings", json={"task": "inference", **body})
    assert made.status_code == 200, made.text
    sizing: dict[str, Any] = made.json()
    return sizing


async def test_the_parts_add_up_and_the_fits_begin_with_the_cheapest(alice: Caller) -> None:
    sizing = await sized(alice, model="Qwen2.5-7B")
    parts = dict(sizing["bytes"])
    assert parts.pop("total") == sum(parts.values())
    assert sizing["model"] == {"parameters": 7_615_616_512, "active_parameters": 7_615_616_512, "layers": 28}
    fits = [(fit["gpu"], fit["count"], fit["interconnect"]) for fit in sizing["fits"]]
    assert fits == [("A10G", 1, None), ("A100", 8, "PCIe")]
    assert sizing["offerings"][0]["instance_type"] == "g5.xlarge"
    assert sizing["lease"]["gpu"] == {"model": "A10G", "count": 1, "memory_gib": 24, "interconnect": None}
    assert all(sentence.endswith(".") for sentence in sizing["assumptions"])


@pytest.mark.parametrize(
    "body",
    [
        {"model": "Llama-3.2-1B"},
        {"model": "Mixtral-8x7B-v0.1", "precision": "int4", "context": 32_768, "concurrency": 2},
        {"config": LLAMA, "concurrency": 8, "market": "any"},
        {"parameters": "30b", "ttl_seconds": 60},
        {"task": "finetuning_lora", "model": "Llama-3.1-8B", "precision": "int4"},
        {"task": "training", "parameters": 1_000_000_000, "optimizer": "adamw_8bit"},
        {"task": "training", "model": "gpt2", "batch": 8, "context": 1024, "sharding": "none"},
    ],
    ids=str,
)
async def test_the_lease_of_an_answer_is_accepted_as_it_is(operator: Caller, body: dict[str, Any]) -> None:
    tenant = await new_tenant(operator, "lab", gpus=64, **{"gpus:A10G": 64, "gpus:A100": 64})
    sizing = await sized(tenant, **body)
    plan = await tenant.post("/v1/leases/plan", json=sizing["lease"])
    assert plan.status_code == 200, plan.text
    first = plan.json()["candidates"][0]["offering"]
    assert plan.json()["admissible"]
    assert first["instance_type"] == sizing["offerings"][0]["instance_type"]
    assert first["price_per_hour"] == sizing["offerings"][0]["price_per_hour"]
    made = await tenant.post("/v1/leases", json=sizing["lease"])
    assert made.status_code == 201, made.text


async def test_at_most_five_instance_types_are_offered(alice: Caller, fleet: Fleet) -> None:
    for number in range(6):
        fleet.offering("g5.xlarge", instance_type=f"g5.{number}xlarge")
    assert len((await sized(alice, model="Qwen2.5-7B"))["offerings"]) == 5


async def test_an_operator_sizes_for_a_tenant(operator: Caller, alice: Caller) -> None:
    sizing = await sized(operator, parameters="1b", tenant_id=alice.tenant_id)
    made = await operator.post("/v1/leases", json=sizing["lease"])
    assert made.status_code == 201, made.text
    assert made.json()["tenant_id"] == alice.tenant_id
    assert (await sized(operator, parameters="1b"))["lease"]["tenant_id"] is None


async def test_a_viewer_may_size(alice: Caller) -> None:
    assert (await sized(await alice.member("viewer"), parameters="1b"))["lease"] is not None


async def test_what_no_vm_holds_has_no_lease_and_says_what_to_do(alice: Caller) -> None:
    sizing = await sized(alice, model="Llama-3.1-405B")
    assert (sizing["fits"], sizing["offerings"], sizing["lease"]) == ([], [], None)
    assert any("No VM of this installation" in sentence for sentence in sizing["assumptions"])
    assert sizing["bytes"]["weights"] == 2 * 405_853_388_800


async def test_what_the_market_does_not_have_fits_without_a_lease(alice: Caller) -> None:
    sizing = await sized(alice, parameters="1b", market="reserved")
    assert sizing["fits"]
    assert (sizing["offerings"], sizing["lease"]) == ([], None)
    assert any("market any" in sentence for sentence in sizing["assumptions"])


@pytest.mark.parametrize(
    ("body", "pointer", "advice"),
    [
        ({}, "#/body/model", "exactly one"),
        ({"model": "gpt2", "parameters": "7b"}, "#/body/parameters", "exactly one"),
        ({"model": "unheard-of"}, "#/body/model", "send config or parameters"),
        ({"parameters": "many"}, "#/body/parameters", "such as 7b"),
        ({"parameters": 12}, "#/body/parameters", "such as 7b"),
        ({"config": {}}, "#/body/config/num_hidden_layers", "paste the whole config.json"),
        ({"config": {**LLAMA, "hidden_size": "x"}}, "#/body/config/hidden_size", "whole number"),
        ({"config": DEEPSEEK}, "#/body/config", "send parameters"),
        ({"task": "training", "parameters": "7b", "precision": "int4"}, "#/body/precision", "finetuning_lora"),
        ({"parameters": "7b", "sharding": "zero_3"}, "#/body/sharding", "none or tensor"),
        ({"parameters": "7b", "kv_precision": "int4"}, "#/body/kv_precision", "fp8"),
        ({"parameters": "7b", "context": 0}, "#/body/context", "1"),
        ({"config": WIDE, "context": 10**7, "concurrency": 10**5}, "#/body/context", "impossible amount"),
        ({"parameters": "7b", "precision": "fp7"}, "#/body/precision", "bf16"),
    ],
    ids=str,
)
async def test_an_error_names_the_field_and_what_to_do(
    alice: Caller, body: dict[str, Any], pointer: str, advice: str
) -> None:
    answer = await alice.post("/v1/sizings", json={"task": "inference", **body})
    assert answer.status_code == 422, answer.text
    errors = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert advice in errors[pointer]
