"""The cloud-neutral world: VMs, what hangs on them, capacity, quotas, faults; no protocol, no I/O, no clock."""

from cloudsim.world.catalog import Catalog, Gpu, MachineType, Offer
from cloudsim.world.core import QUEUE_ENDED, World
from cloudsim.world.create_requests import DiskOrder, NicOrder, Order, PlantOrder
from cloudsim.world.entities import Market, Resource, ResourceKind, Vm, VmState
from cloudsim.world.errors import (
    CapacityExhausted,
    QuotaExceeded,
    ReservationFull,
    ReservationUnusable,
    TokenMismatch,
    TokenTerminated,
    WorldError,
)
from cloudsim.world.faults import Fault, FaultMode
from cloudsim.world.gpus import HEALTHY, AgentMode, GpuCondition
from cloudsim.world.reservations import Reservation

__all__ = [
    "HEALTHY",
    "QUEUE_ENDED",
    "AgentMode",
    "CapacityExhausted",
    "Catalog",
    "DiskOrder",
    "Fault",
    "FaultMode",
    "Gpu",
    "GpuCondition",
    "MachineType",
    "Market",
    "NicOrder",
    "Offer",
    "Order",
    "PlantOrder",
    "QuotaExceeded",
    "Reservation",
    "ReservationFull",
    "ReservationUnusable",
    "Resource",
    "ResourceKind",
    "TokenMismatch",
    "TokenTerminated",
    "Vm",
    "VmState",
    "World",
    "WorldError",
]
