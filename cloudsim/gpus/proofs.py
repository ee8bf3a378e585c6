"""The proof of a VM without a process of its own: what the agent would report of the same devices. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from cloudsim.gpus.devices import AMD, CUDA_VERSION, DRIVER_VERSION, Device
from cloudsim.world import Vm

AGENT = "cloudsim"
"""The version that such a proof carries."""
_CONSOLE_WORD = "gpulease-proof"
_LONGEST_LINE = 4_000
_ESSENTIAL = ("index", "uuid", "model", "memory_mib", "remap_failed", "recovery_action")
_PCI = "0000:00:1e.0"


def boot_id(vm: Vm) -> str:
    """The same as long as the VM is not rebooted."""
    return str(UUID(bytes=hashlib.sha256(f"{vm.id} boot {vm.booted_at}".encode()).digest()[:16]))


def proof(vm: Vm, manufacturer: str, devices: Sequence[Device], at: float) -> dict[str, Any]:
    """What the agent sends once per boot."""
    amd = manufacturer == AMD
    return {
        "version": 1,
        "agent": AGENT,
        "at": round(at, 3),
        "boot_id": boot_id(vm),
        "vendor": "amd" if amd else "nvidia",
        "source": "amd-smi" if amd else "nvml",
        "driver_version": "6.14.14" if amd else DRIVER_VERSION,
        "cuda_version": None if amd else CUDA_VERSION,
        "driver_gpus": len(devices) if devices else None,
        "gpus": [_gpu(device) for device in devices],
        "xids": [{"code": code, "gpu": _PCI, "at": round(at, 3)} for code in vm.gpus.xids],
        "errors": [],
    }


def _gpu(device: Device) -> dict[str, Any]:
    return {
        "index": device.index,
        "uuid": device.uuid,
        "model": device.model,
        "memory_mib": device.memory_mib,
        "ecc_uncorrected": 0,
        "remap_failed": device.remap_failed,
        "remap_pending": False,
        "recovery_action": device.recovery_action,
        "nvlinks_up": device.nvlinks,
        "nvlinks": device.nvlinks,
        "matmul": "skipped",
    }


def console_line(token: str, of_proof: dict[str, Any]) -> str:
    """The line that the agent prints on the serial console, signed with its token. A long one lacks details of GPUs."""
    line = _signed(token, of_proof)
    if len(line) <= _LONGEST_LINE:
        return line
    gpus = [{name: gpu[name] for name in _ESSENTIAL} for gpu in of_proof["gpus"]]
    return _signed(token, {**of_proof, "gpus": gpus})


def _signed(token: str, of_proof: dict[str, Any]) -> str:
    message = json.dumps(of_proof, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    mac = hmac.new(token.encode("ascii"), message.encode("ascii"), hashlib.sha256).hexdigest()
    return f'{_CONSOLE_WORD} {{"mac":"{mac}","proof":{message}}}'
