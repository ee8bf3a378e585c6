"""Several network interfaces of a VM, as Compute Engine takes and refuses them."""

from typing import Any

import pytest

from tests.cloudsim.gce.conftest import IMAGE, SPOT, ZONE, Gce, Refused

SECOND = ZONE.rpartition("-")[0] + "-b"
REGION = ZONE.rpartition("-")[0]
FIRST = {"network": "global/networks/default", "nicType": "GVNIC"}


def gvnics(count: int) -> list[dict[str, Any]]:
    return [{"subnetwork": f"regions/{REGION}/subnetworks/gpu-{n}", "nicType": "GVNIC"} for n in range(count)]


def mrdma(count: int) -> list[dict[str, Any]]:
    return [{"subnetwork": f"regions/{REGION}/subnetworks/rdma-{n}", "nicType": "MRDMA"} for n in range(count)]


def insert(gce: Gce, kind: str, interfaces: list[dict[str, Any]]) -> None:
    zone = SECOND if kind in {"a3-ultragpu-8g", "a4-highgpu-8g"} else ZONE
    disk = gce_disk("hyperdisk-balanced" if zone == SECOND else "pd-ssd", zone)
    gce.insert(
        "vm",
        zone,
        machineType=f"zones/{zone}/machineTypes/{kind}",
        networkInterfaces=interfaces,
        disks=[disk],
        **SPOT,
    )
    shown = gce.vm("vm", zone)["networkInterfaces"]
    assert [one.get("nicType") for one in shown] == [one.get("nicType") for one in interfaces]
    assert [one["name"] for one in shown] == [f"nic{n}" for n in range(len(interfaces))]


def gce_disk(kind: str, zone: str) -> dict[str, Any]:
    made = {"sourceImage": IMAGE, "diskSizeGb": "50", "diskType": f"zones/{zone}/diskTypes/{kind}"}
    return {"boot": True, "autoDelete": True, "initializeParams": made}


@pytest.mark.parametrize(
    ("kind", "others"),
    [
        ("a3-highgpu-8g", gvnics(4)),
        ("a3-megagpu-8g", gvnics(8)),
        ("a3-ultragpu-8g", [*gvnics(1), *mrdma(8)]),
        ("a4-highgpu-8g", [*gvnics(1), *mrdma(8)]),
        ("a4-highgpu-8g", []),
    ],
)
def test_a_type_takes_the_interfaces_that_it_has(gce: Gce, kind: str, others: list[dict[str, Any]]) -> None:
    insert(gce, kind, [FIRST, *others])


@pytest.mark.parametrize(
    ("kind", "others", "why"),
    [
        ("a3-highgpu-8g", gvnics(5), "exceeds"),
        ("a3-megagpu-8g", gvnics(9), "exceeds"),
        ("a3-highgpu-1g", gvnics(1), "exceeds"),
        ("a3-ultragpu-8g", [*gvnics(2), *mrdma(8)], "exceeds"),
        ("a3-ultragpu-8g", [*gvnics(1), *mrdma(7)], "all of its MRDMA"),
        ("a3-megagpu-8g", mrdma(1), "does not support MRDMA"),
        ("a3-megagpu-8g", [gvnics(1)[0], gvnics(1)[0]], "distinct"),
        ("a3-ultragpu-8g", [mrdma(1)[0]] * 8, "distinct"),
        ("a3-ultragpu-8g", [{**mrdma(1)[0], "nicType": "GVNIC"}], "MRDMA interfaces alone"),
        ("a3-ultragpu-8g", [{**gvnics(1)[0], "nicType": "MRDMA"}], "RDMA network profile"),
        ("a3-ultragpu-8g", [{**mrdma(1)[0], "accessConfigs": [{}]}], "external address"),
        ("a3-megagpu-8g", [{**gvnics(1)[0], "nicType": "VIRTIO_NET"}], "requires GVNIC"),
    ],
)
def test_what_google_refuses(gce: Gce, kind: str, others: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(Refused, match=why):
        insert(gce, kind, [FIRST, *others])
