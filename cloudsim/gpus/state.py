"""The state file of one simulated VM's GPUs: looked at by each call, so that a change shows at once."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cloudsim.gpus.records import RECORDS, GpuRecord

RECOVERY_ACTIONS = ("none", "reset", "reboot", "drain_p2p", "drain_and_reset")
_BUS = "0000:{:02x}:{:02x}.0"


class Gpus:
    """What a state file says, with defaults. See `cloudsim.gpus.fake_nvml` for its fields."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.state = state
        self.record: GpuRecord = RECORDS[state.get("model", "A100")]

    @classmethod
    def read(cls, path: Path) -> Gpus:
        """Reads a state file, unless it is the one of the call before: a benchmark makes thousands of calls."""
        status = path.stat()
        return _parse(path, status.st_ino, status.st_mtime_ns, status.st_size)

    @property
    def count(self) -> int:
        """GPUs that the driver shows."""
        return int(self.state.get("visible", self.state.get("count", 1)))

    @property
    def driver(self) -> str:
        """`loaded`, `missing` (no library), `not_loaded`, `mismatch` (library and kernel module differ) or `hangs`."""
        return str(self.state.get("driver", "loaded"))

    @property
    def cuda_number(self) -> int:
        """As NVML returns it: 12080 for 12.8."""
        major, _, minor = str(self.state.get("cuda_version", "12.8")).partition(".")
        return int(major) * 1000 + int(minor or 0) * 10

    def of(self, index: int, field: str, default: Any = None) -> Any:
        """A field of one GPU: its own override, else the value for all GPUs, else `default`."""
        own: Mapping[str, Any] = self.state.get("gpus", {}).get(str(index), {})
        value = own.get(field, self.state.get(field))
        return default if value is None else value

    def uuid(self, index: int) -> str:
        """The same for the same `seed`, index and model."""
        named = self.of(index, "uuid")
        if named is not None:
            return str(named)
        seed = f"{self.state.get('seed', 'vm')}/{index}/{self.record.name}"
        return f"GPU-{uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16])}"

    def bus(self, index: int) -> str:
        """PCI address as the kernel writes it."""
        return _BUS.format(index // 8, 0x10 + index % 8)

    def kernel_lines(self) -> list[str]:
        """Lines of /dev/kmsg: the driver's own, and one for each Xid."""
        lines = ["6,101,2100000,-;nvidia: loading out-of-tree module taints kernel."]
        for position, entry in enumerate(self.state.get("xids", ())):
            xid = entry if isinstance(entry, dict) else {"code": entry}
            at = 60_000_000 + position * 1_000_000
            gpu, text = self.bus(int(xid.get("gpu", 0))), xid.get("text", "pid=1234, name=python3, simulated")
            lines.append(f"4,{200 + position},{at},-;NVRM: Xid (PCI:{gpu}): {int(xid['code'])}, {text}")
        return lines


@lru_cache(maxsize=1)
def _parse(path: Path, *_identity: int) -> Gpus:
    return Gpus(json.loads(path.read_text(encoding="utf-8")))
