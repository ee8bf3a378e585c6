"""The interfaces that GPUs use between the VMs of a group, checked against Google's own description and the simulated cloud."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.account_checks import CheckResult
from app.domain.offerings import Market, NetworkFabric
from app.local.waiting import wait_until
from cloudsim.testing import Control, running
from tests.cloudsim.gce.discovery import checked, faults
from tests.workers.providers.contract.batches import BATCH, SECRET, TOKEN, slots
from tests.workers.providers.gcp.accounts import PROJECT, REGION, account, provider
from tests.workers.providers.gcp.specs import spec
from tests.workers.providers.samples import GROUP, INSTALLATION
from workers.providers import errors
from workers.providers.gcp import batches, catalogue, groups, launch, nics
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.types import GroupSpec

ZONE = f"{REGION}-b"
NETWORKS: dict[str, Any] = {
    "gpu_networks": {REGION: tuple(f"gpu-{n}/gpu-{n}--{REGION}" for n in range(1, 9))},
    "rdma_subnetworks": {ZONE: tuple(f"rdma-{n}" for n in range(8))},
}
TYPES = {
    "a3-highgpu-8g": (4, 0),
    "a3-edgegpu-8g": (4, 0),
    "a3-megagpu-8g": (8, 0),
    "a3-ultragpu-8g": (1, 8),
    "a4-highgpu-8g": (1, 8),
}
NAME = "gpulease-" + GROUP.group_id.replace("_", "-")


def planned(kind: str, group: GroupSpec | None = GROUP, settings: dict[str, Any] = NETWORKS, **changes: Any) -> Any:
    wanted = spec(instance_type=kind, zone=ZONE, group=group, **changes)
    made = launch.plan(wanted, account("http://127.0.0.1:9", None, **settings), catalogue.load().machines[kind])
    assert list(faults(made["instance"], "Instance")) == []
    return made


def test_every_type_with_a_fabric_has_interfaces_for_it_and_no_other_type_has() -> None:
    known = catalogue.load()
    with_fabric = {name for name, kind in known.types.items() if kind.network_fabric is not None}
    assert {n: (m.gpu_gvnics, m.gpu_rdma) for n, m in known.machines.items() if m.gpu_gvnics or m.gpu_rdma} == TYPES
    assert with_fabric == set(TYPES)


@pytest.mark.parametrize("kind", TYPES)
def test_the_interfaces_of_the_gpus_follow_in_order_and_have_no_external_address(kind: str) -> None:
    gvnics, rdma = TYPES[kind]
    first, *others = planned(kind, public_ip=True)["instance"]["networkInterfaces"]
    assert (first["nicType"], bool(first["accessConfigs"])) == ("GVNIC", True)
    place = f"projects/{PROJECT}/regions/{REGION}/subnetworks/"
    assert others == [
        *({"subnetwork": f"{place}gpu-{n}--{REGION}", "nicType": "GVNIC"} for n in range(1, gvnics + 1)),
        *({"subnetwork": f"{place}rdma-{n}", "nicType": "MRDMA"} for n in range(rdma)),
    ]


def test_each_network_of_gpus_opens_to_the_members_and_to_nobody_else() -> None:
    part = planned("a3-highgpu-8g")[groups.PART]
    assert [rule["name"] for rule in part[groups.GPU_RULES]] == [f"{NAME}-n{n}" for n in range(1, 5)]
    for number, rule in enumerate(part[groups.GPU_RULES], start=1):
        assert list(faults(rule, "Firewall")) == []
        assert rule["network"] == f"projects/{PROJECT}/global/networks/gpu-{number}"
        assert rule["sourceTags"] == rule["targetTags"] == [NAME]
        assert "sourceRanges" not in rule


def test_networks_of_a_shared_vpc_are_in_the_host_project() -> None:
    made = planned("a4-highgpu-8g", settings={**NETWORKS, "host_project": "network-123456"})
    _, *others = made["instance"]["networkInterfaces"]
    assert all(one["subnetwork"].startswith("projects/network-123456/") for one in others)
    assert made[groups.PART][groups.GPU_RULES][0]["network"] == "projects/network-123456/global/networks/gpu-1"


@pytest.mark.parametrize("group", [None, replace(GROUP, interconnect="none")])
def test_without_an_interconnect_a_vm_has_one_interface(group: GroupSpec | None) -> None:
    made = planned("a3-megagpu-8g", group)
    assert len(made["instance"]["networkInterfaces"]) == 1
    assert groups.GPU_RULES not in made.get(groups.PART, {})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gpu_networks": {REGION: ("gpu-1/one", "gpu-2/two", "gpu-3/three")}},
        {"gpu_networks": {"europe-west4": NETWORKS["gpu_networks"][REGION]}},
    ],
    ids=["none", "too few", "another region"],
)
def test_without_networks_a_preferred_interconnect_is_left_out_and_a_required_one_is_refused(
    settings: dict[str, Any],
) -> None:
    preferred = planned("a3-highgpu-8g", settings=settings)
    assert len(preferred["instance"]["networkInterfaces"]) == 1
    with pytest.raises(errors.NotOffered, match="gpu_networks"):
        planned("a3-highgpu-8g", replace(GROUP, interconnect="required"), settings)


def test_an_rdma_network_serves_its_zone_alone() -> None:
    of, machine = account("http://127.0.0.1:9", None, **NETWORKS), catalogue.load().machines["a4-highgpu-8g"]
    assert nics.has_gpu_networks(of, machine, REGION, ZONE)
    assert not nics.has_gpu_networks(of, machine, REGION, f"{REGION}-a")


def test_a_batch_has_the_same_interfaces() -> None:
    wanted = spec(instance_type="a3-ultragpu-8g", zone=ZONE, group=GROUP, slot_secret=SECRET)
    of, machine = account("http://127.0.0.1:9", None, **NETWORKS), catalogue.load().machines["a3-ultragpu-8g"]
    params = batches.plan(wanted, of, machine, BATCH, TOKEN, slots(3))
    assert list(faults(params["bulk"], "BulkInsertInstanceResource")) == []
    single = launch.plan(wanted, of, machine)
    assert params["bulk"]["instanceProperties"]["networkInterfaces"] == single[launch.INSTANCE][("networkInterfaces")]
    assert len(params[groups.PART][groups.GPU_RULES]) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"gpu_networks": {REGION: ("gpu-1",)}},
        {"gpu_networks": {REGION: ("gpu-1/one", "gpu-1/two")}},
        {"gpu_networks": {REGION: ("default/one",)}},
        {"rdma_subnetworks": {ZONE: ("rdma-0", "rdma-0")}},
        {"rdma_subnetworks": {ZONE: ("projects/x/rdma-0",)}},
    ],
)
def test_networks_that_google_refuses_are_refused_in_the_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        account("http://127.0.0.1:9", None, **settings)


# --- at the simulated cloud ------------------------------------------------------------------------------


@pytest.fixture
def sim() -> Iterator[Control]:
    with running() as control:
        yield control


def connected(sim: Control, folder: Path, **settings: Any) -> GcpProvider:
    made: GcpProvider = checked(provider(sim.url, folder, **settings))
    return made


@pytest.mark.parametrize("kind", ["a3-megagpu-8g", "a3-ultragpu-8g"])
def test_the_cloud_takes_a_member_with_all_interfaces_and_nothing_stays_after_it(
    sim: Control, tmp_path: Path, kind: str
) -> None:
    gcp = connected(sim, tmp_path, **NETWORKS)
    zone = next(one.zone for one in gcp.offered(REGION) if one.type.name == kind and one.type.network_fabric)
    image = gcp.image(REGION)
    wanted = spec(instance_type=kind, zone=zone, group=GROUP, image=image, market=Market.SPOT)
    vm = gcp.launch(REGION, gcp.plan(wanted))
    (made,) = sim.launches(provider="gcp")
    kinds = [one["nicType"] for one in made["spec"]["further_interfaces"]]
    assert kinds == ["GVNIC"] * TYPES[kind][0] + ["MRDMA"] * TYPES[kind][1]
    free = [one.id for one in gcp.leftovers(REGION, INSTALLATION, None).resources if one.free]
    assert {one for one in free if one.startswith(f"{NAME}-n")} == {
        f"{NAME}-n{n}" for n in range(1, TYPES[kind][0] + 1)
    }
    gcp.terminate(REGION, [vm.id])
    assert wait_until(lambda: not sim.instances(alive="true", provider="gcp"), timeout=30)
    for one in gcp.leftovers(REGION, INSTALLATION, None).resources:
        if one.free:
            gcp.remove_leftover(one)
    assert [one for one in gcp.leftovers(REGION, INSTALLATION, None).resources if one.free] == []


def test_a_type_has_its_fabric_where_the_account_names_the_networks(sim: Control, tmp_path: Path) -> None:
    def fabrics(**settings: Any) -> set[tuple[str, NetworkFabric]]:
        offered = connected(sim, tmp_path, **settings).offered(REGION)
        return {(one.type.name, one.type.network_fabric) for one in offered if one.type.network_fabric is not None}

    assert fabrics() == set()
    assert fabrics(gpu_networks={REGION: NETWORKS["gpu_networks"][REGION][:4]}) == {
        ("a3-highgpu-8g", NetworkFabric.GPUDIRECT)
    }
    assert {name for name, _ in fabrics(**NETWORKS)} >= {"a3-highgpu-8g", "a3-megagpu-8g", "a4-highgpu-8g"}


def test_the_check_of_an_account_covers_the_networks(sim: Control, tmp_path: Path) -> None:
    sim.close_subnet(f"{REGION}/rdma-3", provider="gcp", open=False)
    wrong = ("gpu-1/gpu-1--x", "gpu-2/other--x")
    gcp = connected(sim, tmp_path, **{**NETWORKS, "gpu_networks": {REGION: wrong}})
    results = {
        one.name: one.result
        for one in gcp.check_region(REGION, INSTALLATION)
        if one.name.startswith(("gpu-", "rdma-", "other"))
    }
    failed = {name for name, status in results.items() if status is CheckResult.FAILED}
    assert failed == {"other--x", "rdma-3"}
    assert len(results) == 10
