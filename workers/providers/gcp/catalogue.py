"""The GPU machine types that are leased at Google: facts from `catalogue.toml` and prices from `prices.csv`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from app.domain.offerings import InstanceType
from workers.providers.common.instance_types import Markets, instance_type, markets
from workers.providers.price_list import load_price_list
from workers.providers.types import PriceList


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What `instances.insert` needs of a type.

    `accelerator`: the accelerator type that a VM must add, as many as the type has GPUs. None: the machine type has its
    GPUs built in. `gpu_gvnics`, `gpu_rdma`: the interfaces that GPUs use between VMs, besides the VM's first one.
    """

    machine_type: str
    boot_disk: str
    gpus: int
    accelerator: str | None = None
    gpu_gvnics: int = 0
    gpu_rdma: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpCatalogue:
    """`types`, their `machines` and the `markets` that they are sold in, by name; listed `prices`."""

    types: Mapping[str, InstanceType]
    machines: Mapping[str, Machine]
    markets: Mapping[str, Markets]
    prices: PriceList

    def name_of(self, machine_type: str, accelerators: Mapping[str, int]) -> str:
        """The type of a VM. `accelerators`: number of GPUs by accelerator type. Unknown: the machine type itself."""
        for name, machine in self.machines.items():
            if (
                machine.accelerator is not None
                and machine.machine_type == machine_type
                and accelerators.get(machine.accelerator) == machine.gpus
            ):
                return name
        return machine_type


@cache
def load() -> GcpCatalogue:
    """Reads the files that are part of this package."""
    text = files("workers.providers.gcp").joinpath("catalogue.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    entries = document["types"]
    return GcpCatalogue(
        types={entry["name"]: instance_type(entry) for entry in entries},
        machines={entry["name"]: _machine(entry, document["boot_disk"]) for entry in entries},
        markets={entry["name"]: markets(entry) for entry in entries},
        prices=load_price_list("workers.providers.gcp"),
    )


def _machine(entry: Mapping[str, Any], boot_disk: str) -> Machine:
    return Machine(
        machine_type=entry.get("machine_type", entry["name"]),
        boot_disk=entry.get("boot_disk", boot_disk),
        gpus=entry["gpu"]["count"],
        accelerator=entry.get("accelerator"),
        gpu_gvnics=entry.get("gpu_gvnics", 0),
        gpu_rdma=entry.get("gpu_rdma", 0),
    )
