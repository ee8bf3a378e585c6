"""The request of a lease, stored and read."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from app.domain.lease_requests import GpuRequest, LeaseRequest, OnInterruption
from app.domain.offerings import GpuVendor, Interconnect, MarketWish

TEXTS = st.none() | st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3).map(tuple)
GPUS = st.builds(
    GpuRequest,
    model=st.text(min_size=1),
    count=st.integers(1, 64),
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
    market=st.none() | st.sampled_from(MarketWish),
    providers=TEXTS,
    regions=TEXTS,
    max_price_per_hour=st.none() | st.decimals(min_value=0, max_value=1000, places=6),
    ssh_public_keys=TEXTS.map(lambda keys: keys or ()),
    ssh_keys=TEXTS.map(lambda names: names or ()),
    image=st.none() | st.text(min_size=1),
    disk_gib=st.integers(30, 16_384),
    public_ip=st.booleans(),
    allowed_cidrs=TEXTS,
    on_interruption=st.sampled_from(OnInterruption),
)


@given(REQUESTS)
def test_a_request_survives_being_stored(request: LeaseRequest) -> None:
    assert LeaseRequest.from_json(request.as_json()) == request


def test_a_request_of_an_earlier_version_has_fewer_members() -> None:
    stored = {"ttl_seconds": 60, "gpu": {"model": "T4", "count": 1, "memory_gib": None}}
    assert LeaseRequest.from_json(stored) == LeaseRequest(ttl_seconds=60, gpu=GpuRequest(model="T4"))


def test_an_amount_is_stored_without_an_exponent() -> None:
    request = LeaseRequest(ttl_seconds=60, max_price_per_hour=Decimal("1E+2"))
    assert request.as_json()["max_price_per_hour"] == "100"
