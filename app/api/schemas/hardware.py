"""Response models of a VM's GPUs and network, and of the scope of amounts, which leases and offerings share."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import View
from app.domain.offerings import Driver, GpuVendor, NetworkFabric

GROWS = "The list may grow."
ALL_PARTS = "USD an hour for all `parts`: the VM, its network disks and its public address."
PlacedLocalDisk = Annotated[int, Field(description="Local disk of the VM. 0: none.")]


COVERS = (
    "`compute`: the VM with its GPUs and local disks. `compute_disk_address`: also its network disks and public address, "
    "where their prices are known. Traffic is not included. " + GROWS
)


class Gpu(View):
    """The GPUs of one VM: `count` GPUs with `memory_gib` GiB each."""

    vendor: Annotated[GpuVendor, Field(description="The maker of the GPU. " + GROWS)]
    model: str
    count: int
    memory_gib: int
    fraction: Annotated[
        float, Field(description="The share of one GPU that each of `count` is, such as 0.125. 1: whole GPUs.")
    ]
    interconnect: Annotated[str | None, Field(description="PCIe, NVLink, NVSwitch or Infinity Fabric. " + GROWS)]
    nvlink_generation: Annotated[
        int | None, Field(description="The NVLink generation. Null without NVLink, or if it is unknown.")
    ]
    driver: Annotated[Driver, Field(description="The driver that the VM's image needs.")]


class Network(View):
    """The network of an instance type."""

    gbps: Annotated[float | None, Field(description="Maximum bandwidth in Gbit/s. Null if it is unknown.")]
    fabric: Annotated[NetworkFabric | None, Field(description="What it offers besides Ethernet. " + GROWS)]
