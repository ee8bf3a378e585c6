"""The state file behind the fake NVML of one VM (its form: `cloudsim.gpus.fake_nvml`). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudsim.gpus.devices import CUDA_VERSION, DRIVER_VERSION, Device
from cloudsim.gpus.proofs import boot_id
from cloudsim.world import Vm

_IDLE = 1
"""NVML's throttle reason of a GPU without work."""


def state(vm: Vm, devices: Sequence[Device]) -> dict[str, Any]:
    """What the driver of this VM reports now."""
    mean = sum(device.utilization for device in devices) // len(devices) if devices else 0
    return {
        "model": devices[0].record if devices else "L4",
        "seed": vm.id,
        "count": len(devices),
        "driver_version": DRIVER_VERSION,
        "cuda_version": CUDA_VERSION,
        "boot_id": boot_id(vm),
        "xids": list(vm.gpus.xids),
        "cpu_percent": 2 + mean // 4,
        "memory_percent": 8 + mean // 3,
        "gpus": {str(device.index): _gpu(device) for device in devices},
    }


def _gpu(device: Device) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "name": device.model,
        "memory_mib": device.memory_mib,
        "memory_used_mib": device.memory_used_mib,
        "utilization": device.utilization,
        "memory_utilization": device.utilization // 2,
        "power_w": device.power_w,
        "temperature_c": device.temperature_c,
        "sm_clock_mhz": device.sm_clock_mhz,
        "throttle": 0 if device.utilization else _IDLE,
        "remap_failed": device.remap_failed,
        "recovery_action": device.recovery_action,
        "nvlinks": device.nvlinks,
    }
