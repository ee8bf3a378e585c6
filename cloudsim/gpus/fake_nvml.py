"""Runs the agent of a lease on a machine without a GPU: `python -m cloudsim.gpus.fake_nvml STATE.json AGENT_FILE args…`.

The runner replaces `ctypes.CDLL` for libnvidia-ml, libcuda, libcublas and libnccl with Python functions over the state
file. It writes the host's files that the agent reads below the `--root` of its arguments (`dev/kmsg`, `proc/stat`,
`proc/meminfo`, `proc/uptime`, `proc/sys/kernel/random/boot_id`). Then it runs the agent's `main(arguments)`.
The agent writes its console line to `dev/ttyS0` and its state to `run/gpulease` below the same root. Typical use:

    python -m cloudsim.gpus.fake_nvml DIR/gpus.json DIR/usr/local/sbin/gpulease-agent run --root DIR --interval 1

with the configuration of the VM's user data in `DIR/etc/gpulease/agent.json`.

The state is a JSON object. The file is read again at each call of a library; replace the file whole (write beside it and
rename). Every field may be missing:

| field | default | meaning |
|---|---|---|
| `model` | `"A100"` | a key of `cloudsim.gpus.records.RECORDS`: A100, A100-80GB, H100, H200, A10G, T4, L4, V100 |
| `count`, `visible` | 1, `count` | GPUs of the machine; GPUs that the driver shows |
| `seed` | `"vm"` | UUIDs are derived from it: use the host's name, so that another VM has other GPUs |
| `driver` | `"loaded"` | `missing`: no library; `not_loaded`; `mismatch`; `hangs`: NVML does not answer |
| `driver_version`, `cuda_version` | `"570.124.06"`, `"12.8"` | |
| `boot_id` | derived from `seed` | change it to simulate a reboot |
| `xids` | `[]` | `79` or `{"code": 79, "gpu": 0}`: lines of the kernel log since boot; only ever append |
| `cpu_percent`, `memory_percent` | 2, 8 | of the host |
| `cublas` | true | false: the libraries for the multiplication and the benchmark are missing |
| `nccl` | true | false: no NCCL |
| `gpus` | `{}` | `{"3": {…}}`: fields of GPU 3 that differ from the fields below |

Fields of GPUs, for all of them or in `gpus`:

| field | default | meaning |
|---|---|---|
| `uuid` | derived from `seed` | |
| `name`, `memory_mib`, `power_w`, `temperature_c`, `sm_clock_mhz`, `nvlinks` | of `model` | |
| `nvlinks_up` | `nvlinks` | |
| `memory_used_mib` | 3 | |
| `utilization`, `memory_utilization`, `ecc_uncorrected` | 0 | |
| `throttle` | 1 | 1: idle |
| `remap_failed`, `remap_pending` | false | |
| `recovery_action` | `"none"` | one of `state.RECOVERY_ACTIONS`; `null`: the default; `"unsupported"`: an old driver |
| `lost` | false | true: each call about this GPU returns "GPU is lost" |
| `matmul` | `"passed"` | `"failed"`: a multiplication gives a wrong result |
| `rate` | 1.0 | the factor on the class's benchmark figures |
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading
import time
import uuid
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from cloudsim.gpus.fake_cuda import FakeCublas, FakeCuda
from cloudsim.gpus.fake_nccl import FakeNcclCluster
from cloudsim.gpus.state import RECOVERY_ACTIONS, Gpus

_OK, _BAD_ARGUMENT, _NOT_SUPPORTED, _NOT_LOADED, _GPU_LOST, _MISMATCH = 0, 2, 3, 9, 15, 18
_RECOVERY_FIELD = 230
_HANG_SECONDS = 3600


class FakeNvml:
    """The functions of libnvidia-ml that the agent calls, by their names in C. `changed` runs at each `nvmlInit`."""

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        self._path = path
        self._changed = changed

    def nvmlInit_v2(self) -> int:
        self._changed()
        driver = self._gpus().driver
        if driver == "hangs":
            threading.Event().wait(_HANG_SECONDS)  # the caller must not wait for it
        return {"not_loaded": _NOT_LOADED, "mismatch": _MISMATCH}.get(driver, _OK)

    def nvmlShutdown(self) -> int:
        return _OK

    def nvmlSystemGetDriverVersion(self, text: Any, length: Any) -> int:
        return _fill(text, self._gpus().state.get("driver_version", "570.124.06"))

    def nvmlSystemGetCudaDriverVersion_v2(self, version: Any) -> int:
        return _set(version, self._gpus().cuda_number)

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        return _set(count, self._gpus().count)

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        number, gpus = _int(index), self._gpus()
        if number >= gpus.count:
            return _BAD_ARGUMENT
        return _GPU_LOST if gpus.of(number, "lost") else _set(handle, number + 1)

    def nvmlDeviceGetUUID(self, handle: Any, text: Any, length: Any) -> int:
        return _fill(text, self._gpus().uuid(_index(handle)))

    def nvmlDeviceGetName(self, handle: Any, text: Any, length: Any) -> int:
        gpus = self._gpus()
        return _fill(text, gpus.of(_index(handle), "name", gpus.record.name))

    def nvmlDeviceGetMemoryInfo(self, handle: Any, info: Any) -> int:
        return self._memory(handle, info)

    def nvmlDeviceGetMemoryInfo_v2(self, handle: Any, info: Any) -> int:
        return self._memory(handle, info)

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        gpus, index = self._gpus(), _index(handle)
        rates._obj.gpu = int(gpus.of(index, "utilization", 0))
        rates._obj.memory = int(gpus.of(index, "memory_utilization", 0))
        return _OK

    def nvmlDeviceGetPowerUsage(self, handle: Any, milliwatts: Any) -> int:
        gpus, index = self._gpus(), _index(handle)
        return _set(milliwatts, round(gpus.of(index, "power_w", gpus.record.power_w) * 1000))

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: Any, celsius: Any) -> int:
        gpus, index = self._gpus(), _index(handle)
        return _set(celsius, gpus.of(index, "temperature_c", gpus.record.temperature_c))

    def nvmlDeviceGetClockInfo(self, handle: Any, clock: Any, mhz: Any) -> int:
        gpus, index = self._gpus(), _index(handle)
        return _set(mhz, gpus.of(index, "sm_clock_mhz", gpus.record.sm_clock_mhz))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, reasons: Any) -> int:
        return _set(reasons, self._gpus().of(_index(handle), "throttle", 1))

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, counter: Any, count: Any) -> int:
        gpus = self._gpus()
        if not gpus.record.ecc:
            return _NOT_SUPPORTED
        return _set(count, gpus.of(_index(handle), "ecc_uncorrected", 0))

    def nvmlDeviceGetRemappedRows(
        self, handle: Any, corrected: Any, uncorrected: Any, pending: Any, failed: Any
    ) -> int:
        gpus, index = self._gpus(), _index(handle)
        if not gpus.record.remapping:
            return _NOT_SUPPORTED
        _set(corrected, 0)
        _set(uncorrected, 0)
        _set(pending, int(bool(gpus.of(index, "remap_pending", default=False))))
        return _set(failed, int(bool(gpus.of(index, "remap_failed", default=False))))

    def nvmlDeviceGetNvLinkState(self, handle: Any, link: Any, active: Any) -> int:
        gpus, index, number = self._gpus(), _index(handle), _int(link)
        links = int(gpus.of(index, "nvlinks", gpus.record.nvlinks))
        if number >= links:
            return _BAD_ARGUMENT if links else _NOT_SUPPORTED
        return _set(active, int(number < int(gpus.of(index, "nvlinks_up", links))))

    def nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        action = self._gpus().of(_index(handle), "recovery_action", "none")
        value = values._obj
        if value.fieldId != _RECOVERY_FIELD or action == "unsupported":
            value.nvmlReturn = _NOT_SUPPORTED
        else:
            value.nvmlReturn, value.value = _OK, RECOVERY_ACTIONS.index(action)
        return _OK

    def _memory(self, handle: Any, info: Any) -> int:
        gpus, index = self._gpus(), _index(handle)
        memory = info._obj
        memory.total = int(gpus.of(index, "memory_mib", gpus.record.memory_mib)) << 20
        memory.used = int(gpus.of(index, "memory_used_mib", 3)) << 20
        memory.free = memory.total - memory.used
        return _OK

    def _gpus(self) -> Gpus:
        return Gpus.read(self._path)


class HostFiles:
    """The files of a Linux host that the agent reads, below a root of their own."""

    def __init__(self, root: Path, state: Path) -> None:
        self._root = root
        self._state = state

    def write(self) -> None:
        """Writes them as the state says. Lines of the kernel log are only appended."""
        gpus = Gpus.read(self._state)
        boot = gpus.state.get("boot_id") or uuid.uuid5(uuid.NAMESPACE_OID, str(gpus.state.get("seed", "vm")))
        ticks = int(time.time() * 100)
        busy = ticks * int(gpus.state.get("cpu_percent", 2)) // 100
        available = 1024 * (100 - int(gpus.state.get("memory_percent", 8)))
        self._put("proc/sys/kernel/random/boot_id", f"{boot}\n")
        self._put("proc/stat", f"cpu  {busy} 0 0 {ticks - busy} 0 0 0 0 0 0\n")
        self._put("proc/meminfo", f"MemTotal: {1024 * 100} kB\nMemFree: 0 kB\nMemAvailable: {available} kB\n")
        self._put("proc/uptime", "120.00 100.00\n")
        self._put("dev/ttyS0", "", only_if_missing=True)
        log = self._root / "dev/kmsg"
        known = log.read_text().count("\n") if log.exists() else 0
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in gpus.kernel_lines()[known:])

    def _put(self, name: str, text: str, *, only_if_missing: bool = False) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (only_if_missing and path.exists()):
            path.write_text(text, encoding="utf-8")


def fake_loader(state: Path, changed: Callable[[], None]) -> Callable[..., Any]:
    """A replacement of `ctypes.CDLL`. Other libraries, and those the state calls missing, cannot be opened."""

    def load(name: str | None, *_: object, **__: object) -> Any:
        text, gpus = str(name), Gpus.read(state)
        if "nvidia-ml" in text and gpus.driver != "missing":
            return FakeNvml(state, changed)
        if "libcuda." in text and gpus.driver == "loaded":
            return FakeCuda(state)
        if "cublas" in text and "Lt" not in text and gpus.state.get("cublas", True):
            return FakeCublas(state)
        if "nccl" in text and gpus.state.get("nccl", True):
            return FakeNcclCluster(state)
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    return load


def main(arguments: list[str]) -> int:
    """Runs the agent file under the fake libraries. Returns its exit status."""
    state, agent, *rest = arguments
    root = Path(rest[rest.index("--root") + 1]) if "--root" in rest else None
    files = HostFiles(root, Path(state)) if root is not None else None
    changed = files.write if files is not None else lambda: None
    changed()
    ctypes.CDLL = fake_loader(Path(state), changed)  # pyrefly: ignore[bad-assignment]
    spec = importlib.util.spec_from_loader("gpulease_agent", None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = agent
    sys.modules["gpulease_agent"] = module
    exec(_compiled(agent), module.__dict__)  # noqa: S102 - it is the file to be run
    return int(module.main(rest) or 0)


def _compiled(agent: str) -> CodeType:
    """Python keeps what it compiled of a module. A VM's own copy has no suffix, and may be replaced at any time."""
    code = SourceFileLoader("gpulease_agent", agent).get_code("gpulease_agent") if agent.endswith(".py") else None
    return code or compile(Path(agent).read_text(encoding="utf-8"), agent, "exec")


def _set(reference: Any, value: Any) -> int:
    reference._obj.value = value
    return _OK


def _fill(text: Any, value: str) -> int:
    text.value = value.encode()
    return _OK


def _int(value: Any) -> int:
    return int(getattr(value, "value", value))


def _index(handle: Any) -> int:
    return _int(handle) - 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
