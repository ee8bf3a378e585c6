"""The request of a lease, stored and read."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.lease_requests import (
    BenchmarkMode,
    GpuRequest,
    IdleAction,
    IdleRule,
    LeaseRequest,
    OnGpuFailure,
    OnInterruption,
    ProofMode,
)
from app.domain.offerings import GpuVendor, Interconnect, MarketPreference
from app.domain.volumes import VolumeMount

TEXTS = st.none() | st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3).map(tuple)
GPUS = st.builds(
    lambda count, is_minimum, **more: GpuRequest(**{"min_count" if is_minimum else "count": count}, **more),
    count=st.integers(1, 64),
    is_minimum=st.booleans(),
    model=st.text(min_size=1),
    memory_gib=st.none() | st.integers(1, 1024),
    interconnect=st.none() | st.sampled_from(Interconnect),
    vendor=st.none() | st.sampled_from(GpuVendor),
)
REQUESTS = st.builds(
    LeaseRequest,
    ttl_seconds=st.integers(60, 864_000),
    wait_seconds=st.integers(0, 86_400),
    name=st.none() | st.text(min_size=1),
    labels=st.dictionaries(st.text(min_size=1), st.text()),
    gpu=st.none() | GPUS,
    instance_types=TEXTS,
    min_vcpus=st.none() | st.integers(1, 1024),
    min_memory_gib=st.none() | st.integers(1, 65_536),
    min_local_disk_gib=st.none() | st.integers(1, 262_144),
    market=st.sampled_from(MarketPreference),
    providers=TEXTS,
    regions=TEXTS,
    max_price_per_hour=st.none() | st.decimals(min_value=0, max_value=1000, places=6),
    ssh_public_keys=TEXTS.map(lambda keys: keys or ()),
    ssh_keys=TEXTS.map(lambda names: names or ()),
    image=st.none() | st.text(min_size=1),
    disk_gib=st.integers(30, 16_384),
    volumes=st.lists(st.builds(VolumeMount, st.text(), st.text()), max_size=3).map(tuple),
    public_ip=st.booleans(),
    allowed_cidrs=TEXTS,
    on_interruption=st.sampled_from(OnInterruption),
)


@given(REQUESTS)
def test_a_request_survives_being_stored(request: LeaseRequest) -> None:
    assert LeaseRequest.from_json(request.as_json()) == request


def test_one_gpu_is_the_default_and_a_minimum_replaces_it() -> None:
    assert GpuRequest(model="T4") == GpuRequest(model="T4", count=1)
    assert GpuRequest.from_json({"model": "T4", "count": None, "min_count": None}).count == 1
    assert GpuRequest(model="T4", min_count=2).count is None
    with pytest.raises(ValueError, match="exclude"):
        GpuRequest(model="T4", count=1, min_count=1)


def test_an_amount_is_stored_without_an_exponent() -> None:
    request = LeaseRequest(ttl_seconds=60, max_price_per_hour=Decimal("1E+2"))
    assert request.as_json()["max_price_per_hour"] == "100"


def test_the_wishes_about_gpus_are_read_as_they_were_stored_and_have_defaults() -> None:
    wishes = LeaseRequest(
        ttl_seconds=60,
        proof=ProofMode.REQUIRED,
        on_gpu_failure=OnGpuFailure.REPLACE,
        idle=IdleRule(after_seconds=900, action=IdleAction.END),
        benchmark=BenchmarkMode.QUICK,
    )
    assert LeaseRequest.from_json(wishes.as_json()) == wishes
    assert wishes.as_json()["idle"] == {"after_seconds": 900, "action": "end"}
    earlier = LeaseRequest.from_json({"ttl_seconds": 60})
    assert (earlier.proof, earlier.on_gpu_failure, earlier.idle) == (ProofMode.AUTO, OnGpuFailure.NOTIFY, None)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"proof": ProofMode.OFF}, False),
        ({"proof": ProofMode.OFF, "idle": IdleRule()}, True),
        ({"proof": ProofMode.OFF, "benchmark": BenchmarkMode.QUICK}, True),
    ],
)
def test_an_agent_is_needed_for_the_proof_idleness_or_the_benchmark(changes: dict[str, Any], *, wanted: bool) -> None:
    assert LeaseRequest(ttl_seconds=60, **changes).wants_agent is wanted
