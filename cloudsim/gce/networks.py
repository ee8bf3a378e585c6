"""VPC networks and their subnetworks. Every network exists, with a subnetwork of its own name in each region.

A subnetwork NETWORK--NAME is in the network NETWORK.
"""

from __future__ import annotations

from cloudsim.gce import links
from cloudsim.gce.call import API, Call, Result
from cloudsim.gce.catalog import PROVIDER, REGIONS
from cloudsim.gce.errors import not_found


def network(call: Call) -> Result:
    """networks.get."""
    name = call.path["network"]
    return {
        "kind": "compute#network",
        "id": links.number("network", name),
        "name": name,
        "autoCreateSubnetworks": True,
        "subnetworks": [f"{links.regional(call.project, region)}/subnetworks/{name}" for region in REGIONS],
        "selfLink": links.everywhere(call.project, "networks", name),
    }


def subnetwork(call: Call) -> Result:
    """subnetworks.get. Raises GceError notFound."""
    name, restrictions = call.path["subnetwork"], call.world.restrictions
    if call.region not in REGIONS:
        raise not_found(f"projects/{call.project}/regions/{call.region}/subnetworks/{name}")
    key = f"{call.region}/{name}"
    free = restrictions.free_addresses(PROVIDER, key)
    utilization = {"ipv4Utilizations": [{"totalAllocatedIp": "2", "totalFreeIp": str(free)}]}
    return {
        "kind": "compute#subnetwork",
        "id": links.number("subnetwork", key),
        "name": name,
        "network": f"{API}/projects/{call.project}/global/networks/{name.partition('--')[0]}",
        "region": links.regional(call.project, call.region),
        "ipCidrRange": "10.128.0.0/20",
        "purpose": "PRIVATE" if restrictions.is_open(PROVIDER, key) else "REGIONAL_MANAGED_PROXY",
        "state": "READY",
        "selfLink": f"{links.regional(call.project, call.region)}/subnetworks/{name}",
        **({"utilizationDetails": utilization} if call.query.get("views") == "WITH_UTILIZATION" else {}),
    }
