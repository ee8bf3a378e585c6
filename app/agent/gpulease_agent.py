#!/usr/bin/python3
"""gpulease agent: proves the GPUs of a leased VM after each boot and reports their health and use once a minute.

What leaves the VM, all of it:
- of the machine: boot id, percent of CPU, memory and the root disk in use;
- of the driver: its version and CUDA's, names of the libraries used and their versions;
- of each GPU: index, UUID, model, memory (total, used), utilization, power, temperature, SM clock, throttle reasons,
  uncorrectable ECC errors, row remapping, recovery action, NVLinks, result of a multiplication, benchmark figures;
- of the kernel's log: lines "NVRM: Xid" as code, PCI address and time. Other lines are not kept;
- texts of errors of this program.
The agent reads no file of a user, no process, no environment of a process, no command line and no network traffic.
It accepts no commands. It sends to the URL in its configuration alone, and writes one line to the serial console.

Usage: gpulease-agent run [--interval SECONDS] | proof | sample | show | benchmark   [--config FILE] [--root DIR]
  run        proof (once per boot), benchmark if configured, then a sample each interval, until stopped or refused
  proof      take and send the proof       sample     take and send one sample
  show       print both, send nothing      benchmark  measure the GPUs and print the result
  --root     prefix of the host's paths, for tests

Needs Python 3.8 and its standard library. Source and documentation: gpulease, docs/gpu-agent.md.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import hmac
import http.client
import json
import os
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Iterator
from urllib.parse import urlsplit

VERSION = "1.0"
INTERVAL = 60.0
LARGEST_BODY, LARGEST_LINE = 16384, 4096
MOST_GPUS, MOST_XIDS, MOST_ERRORS, MOST_SAMPLES = 64, 64, 8, 10
DRIVER_SECONDS, MATMUL_SECONDS, CONSOLE_SECONDS, PUSH_SECONDS = 15.0, 4.0, 5.0, 20.0
"""Together less than the 45 seconds after which the tenant's script starts in any case."""
BENCHMARK_SECONDS, NCCL_SECONDS = 45.0, 12.0
PROOF_TICKS = 10
"""Intervals during which a proof that could not be sent is sent again."""
STOP, GIVE_UP = 401, (413, 422)
PROOF_FIELDS = (
    "index", "uuid", "model", "memory_mib", "ecc_uncorrected", "remap_failed", "remap_pending", "recovery_action",
    "nvlinks_up", "nvlinks", "matmul",
)  # fmt: skip
SAMPLE_FIELDS = (
    "uuid", "utilization", "memory_used_mib", "memory_mib", "power_w", "temperature_c", "sm_clock_mhz",
    "ecc_uncorrected", "remap_failed", "recovery_action", "throttle",
)  # fmt: skip
DETAILS = ("nvlinks_up", "nvlinks", "ecc_uncorrected", "remap_pending")


# --- processes and small helpers ------------------------------------------------------------------------------


_STUCK: set[int] = set()
"""Children that hang in a driver and cannot be killed yet."""


def isolated(work: Callable[[], Iterator[Any]], seconds: float) -> tuple[list[Any], str | None]:
    """What `work` yields, as JSON, and why there is no more. It runs in a child process: a hanging driver hangs there."""
    _reap(0.0)
    if _STUCK:
        return [], "the driver has not answered an earlier question"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, writing)
    os.close(writing)
    data, deadline, error = b"", time.monotonic() + seconds, None
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            error = "no answer within %g s" % seconds
            break
        chunk = os.read(reading, 65536)
        if not chunk:
            break
        data += chunk
    os.close(reading)
    if error:
        os.kill(child, signal.SIGKILL)
    _STUCK.add(child)
    _reap(2.0)
    values = [json.loads(line) for line in data.split(b"\n")[:-1]]
    if values and isinstance(values[-1], dict) and "failed" in values[-1]:
        error = values.pop()["failed"]
    elif values and values[-1] == "done":
        values.pop()
    elif error is None:
        error = "the process ended early"
    return values, error


def _work(work: Callable[[], Iterator[Any]], pipe: int) -> None:
    """The child's life. It never returns."""
    try:
        with os.fdopen(pipe, "wb", 0) as file:
            try:
                for value in work():
                    file.write(json.dumps(value).encode() + b"\n")
                file.write(b'"done"\n')
            except Exception as error:
                file.write(json.dumps({"failed": "%s: %s" % (type(error).__name__, error)}).encode() + b"\n")
    finally:
        os._exit(0)


def _reap(seconds: float) -> None:
    """Collects children that have ended, for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        for child in list(_STUCK):
            if os.waitpid(child, os.WNOHANG)[0]:
                _STUCK.discard(child)
        if not _STUCK or time.monotonic() >= deadline:
            return
        time.sleep(0.005)


def clean(text: Any, longest: int = 100) -> str:
    """Printable text of limited length: what the API accepts."""
    return "".join(c if c.isprintable() else " " for c in str(text).strip())[:longest]


def number(text: Any) -> float | None:
    """The first number in "51.20 W", {"value": 51.2} or 51.2. None for "N/A"."""
    if isinstance(text, dict):
        text = text.get("value")
    found = re.match(r"\s*(-?\d+(?:\.\d+)?)", str(text))
    return float(found.group(1)) if found else None


def whole(text: Any) -> int | None:
    """The same, as an integer."""
    value = number(text)
    return None if value is None else int(value)


def output(*command: str) -> str | None:
    """Standard output of a program. None if it is missing, fails or takes too long."""
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin") + ":/opt/rocm/bin:/usr/local/nvidia/bin"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=DRIVER_SECONDS - 2,
            check=False,
            env={"PATH": path, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 and done.stdout else None


def load(*names: str) -> Any:
    """The first shared library that can be opened. Raises OSError."""
    last = OSError("no library")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise last


# --- the host -------------------------------------------------------------------------------------------------


class Host:
    """Files of the machine, below a root that is empty except in tests."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._log: int | None = None
        self._rest = b""
        self._xids: dict[tuple[int, str], float] = {}
        self._booted = time.time() - (number(self.text("/proc/uptime")) or 0.0)

    def text(self, path: str) -> str:
        """Contents of a small file, empty if it cannot be read."""
        try:
            with open(self.root + path, encoding="utf-8", errors="replace") as file:
                return file.read(65536)
        except OSError:
            return ""

    def boot_id(self) -> str | None:
        return clean(self.text("/proc/sys/kernel/random/boot_id")) or None

    def cpu_ticks(self) -> tuple[int, int] | None:
        """(busy, total) since the boot."""
        fields = self.text("/proc/stat").split("\n", 1)[0].split()[1:9]
        if len(fields) < 5:
            return None
        ticks = [int(one) for one in fields]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)

    def memory_percent(self) -> float | None:
        lines = dict(line.split(":", 1) for line in self.text("/proc/meminfo").splitlines() if ":" in line)
        total, free = number(lines.get("MemTotal")), number(lines.get("MemAvailable"))
        return round(100 * (1 - free / total), 1) if total and free is not None else None

    def disk_percent(self) -> float | None:
        try:
            disk = os.statvfs(self.root or "/")
        except OSError:
            return None
        used = disk.f_blocks - disk.f_bfree
        return round(100 * used / (used + disk.f_bavail), 1) if used + disk.f_bavail else None

    def vendor_on_bus(self) -> str:
        """Whose display or 3D controllers are on the PCI bus: it shows a GPU without a driver."""
        found = set()
        for path in glob.glob(self.root + "/sys/bus/pci/devices/*/vendor"):
            device = os.path.dirname(path)[len(self.root) :]
            kind = self.text(device + "/class").strip()
            if kind.startswith("0x03") or kind.startswith("0x12"):
                found.add(self.text(device + "/vendor").strip())
        return "nvidia" if "0x10de" in found else "amd" if "0x1002" in found else "none"

    def xids(self) -> list[dict[str, Any]]:
        """Xids since the boot: each code of each GPU once, with the time of the newest one."""
        for line in self._kernel_lines():
            found = _XID.search(line)
            if found:
                micro, seconds, gpu, code = found.groups()
                at = self._booted + (int(micro) / 1e6 if micro else float(seconds or 0))
                self._xids.pop((int(code), gpu), None)
                self._xids[int(code), gpu] = round(at, 1)
        newest = list(self._xids.items())[-MOST_XIDS:]
        return [{"code": code, "gpu": gpu, "at": at} for (code, gpu), at in newest]

    def _kernel_lines(self) -> list[str]:
        if self._log is None:
            try:
                self._log = os.open(self.root + "/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                # without /dev/kmsg the whole log is read each time
                text = output("dmesg") or output("journalctl", "-k", "-b", "-o", "short-monotonic", "--no-pager")
                return (text or "").splitlines() if not self.root else []
        while True:
            try:
                chunk = os.read(self._log, 8192)
            except BrokenPipeError:
                continue  # records that were overwritten are lost
            except OSError:
                break  # no more for now
            if not chunk:
                break
            self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines if b"Xid" in line]


_XID = re.compile(
    r"^(?:\d+,\d+,(\d+),[^;]*;|\[\s*(\d+\.\d+)\])?.*?NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,40})\): (\d{1,6})\b"
)


# --- NVIDIA ---------------------------------------------------------------------------------------------------


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class Utilization(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t. The union of the value is read as its 8 bytes; the action is an unsigned int in the first 4."""

    _fields_ = [
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_int),
        ("nvmlReturn", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


NO_FUNCTION = 13
NVML_ERRORS = {
    2: "invalid argument", 3: "not supported", 4: "no permission", 9: "the driver is not loaded", 10: "timeout",
    12: "library not found", 13: "function not found", 15: "the GPU is lost",
    18: "the library and the kernel module have different versions", 999: "unknown error",
}  # fmt: skip
RECOVERY = ("none", "reset", "reboot", "drain_p2p", "drain_and_reset")
RECOVERY_FIELD = 230
MOST_NVLINKS = 18


class Nvml:
    """libnvidia-ml through ctypes. A function that an old driver lacks gives None."""

    def __init__(self) -> None:
        self.library = load("libnvidia-ml.so.1", "libnvidia-ml.so")

    def call(self, name: str, *arguments: Any) -> int:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            return NO_FUNCTION
        return int(function(*arguments))

    def value(self, kind: Any, names: str, *arguments: Any) -> int | None:
        """A number that one of the functions writes to its last argument."""
        for name in names.split():
            value = kind()
            if self.call(name, *arguments, ctypes.byref(value)) == 0:
                return int(value.value or 0)
        return None

    def text(self, name: str, *arguments: Any) -> str | None:
        buffer = ctypes.create_string_buffer(96)
        if self.call(name, *arguments, buffer, ctypes.c_uint(96)):
            return None
        return clean(buffer.value.decode("utf-8", "replace"))

    def gpu(self, index: int, handle: Any, details: bool) -> dict[str, Any]:
        """All that is known of one GPU."""
        unsigned, long = ctypes.c_uint, ctypes.c_ulonglong
        power = self.value(unsigned, "nvmlDeviceGetPowerUsage", handle)
        state: dict[str, Any] = {
            "index": index,
            "uuid": self.text("nvmlDeviceGetUUID", handle),
            "model": self.text("nvmlDeviceGetName", handle),
            "power_w": None if power is None else power / 1000,
            "temperature_c": self.value(unsigned, "nvmlDeviceGetTemperature", handle, unsigned(0)),
            "sm_clock_mhz": self.value(unsigned, "nvmlDeviceGetClockInfo", handle, unsigned(1)),
            "throttle": self.value(
                long, "nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons", handle
            ),
            "ecc_uncorrected": self.value(long, "nvmlDeviceGetTotalEccErrors", handle, unsigned(1), unsigned(0)),
            "recovery_action": self._recovery_action(handle),
        }
        rates = Utilization()
        if self.call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(rates)) == 0:
            state["utilization"] = rates.gpu
        self._memory(handle, state)
        rows = [unsigned() for _ in range(4)]
        if self.call("nvmlDeviceGetRemappedRows", handle, *(ctypes.byref(one) for one in rows)) == 0:
            state["remap_pending"], state["remap_failed"] = bool(rows[2].value), bool(rows[3].value)
        if details:
            self._nvlinks(handle, state)
            state["persistence"] = self.value(unsigned, "nvmlDeviceGetPersistenceMode", handle)
        return state

    def _memory(self, handle: Any, state: dict[str, Any]) -> None:
        newer, older = MemoryV2(), Memory()
        newer.version = ctypes.sizeof(MemoryV2) | 2 << 24
        for name, info in (("nvmlDeviceGetMemoryInfo_v2", newer), ("nvmlDeviceGetMemoryInfo", older)):
            if self.call(name, handle, ctypes.byref(info)) == 0:
                state["memory_mib"], state["memory_used_mib"] = info.total >> 20, info.used >> 20
                return

    def _nvlinks(self, handle: Any, state: dict[str, Any]) -> None:
        links = [
            self.value(ctypes.c_uint, "nvmlDeviceGetNvLinkState", handle, ctypes.c_uint(link))
            for link in range(MOST_NVLINKS)
        ]
        known = [link for link in links if link is not None]
        if known:
            state["nvlinks"], state["nvlinks_up"] = len(known), sum(link == 1 for link in known)

    def _recovery_action(self, handle: Any) -> str | None:
        field = FieldValue(fieldId=RECOVERY_FIELD)
        if self.call("nvmlDeviceGetFieldValues", handle, ctypes.c_int(1), ctypes.byref(field)) or field.nvmlReturn:
            return None
        action = field.value & 0xFFFFFFFF
        return RECOVERY[action] if action < len(RECOVERY) else "unknown"


def from_nvml(details: bool) -> Iterator[dict[str, Any]]:
    """First the driver, then one dictionary for each GPU, then problems. Raises OSError without the library."""
    nvml = Nvml()
    code = nvml.call("nvmlInit_v2")
    if code:
        yield {"error": "NVML: %s (%d)" % (NVML_ERRORS.get(code, "error"), code)}
        return
    cuda = nvml.value(ctypes.c_int, "nvmlSystemGetCudaDriverVersion_v2 nvmlSystemGetCudaDriverVersion")
    yield {
        "driver": {
            "vendor": "nvidia",
            "source": "nvml",
            "driver_version": nvml.text("nvmlSystemGetDriverVersion"),
            "cuda_version": "%d.%d" % (cuda // 1000, cuda % 1000 // 10) if cuda else None,
        }
    }
    for index in range(nvml.value(ctypes.c_uint, "nvmlDeviceGetCount_v2 nvmlDeviceGetCount") or 0):
        handle = ctypes.c_void_p()
        code = nvml.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        if code:
            yield {"error": "GPU %d: %s (%d)" % (index, NVML_ERRORS.get(code, "NVML error"), code)}
        else:
            yield {"gpu": nvml.gpu(index, handle, details)}


SMI_REASONS = {
    "gpu_idle": 1, "applications_clocks_setting": 2, "sw_power_cap": 4, "hw_slowdown": 8, "sync_boost": 16,
    "sw_thermal_slowdown": 32, "hw_thermal_slowdown": 64, "hw_power_brake_slowdown": 128,
    "display_clocks_setting": 256,
}  # fmt: skip


def from_nvidia_smi(_details: bool) -> Iterator[dict[str, Any]]:
    """The same from `nvidia-smi -q -x`."""
    text = output("nvidia-smi", "-q", "-x")
    if text is None:
        return
    from xml.etree import ElementTree  # only where NVML is missing

    log = ElementTree.fromstring(text)
    versions = {name: clean(log.findtext(name) or "") or None for name in ("driver_version", "cuda_version")}
    yield {"driver": dict(versions, vendor="nvidia", source="nvidia-smi")}
    for index, gpu in enumerate(log.findall("gpu")):
        yield {"gpu": _smi_gpu(index, gpu)}


def _smi_gpu(index: int, gpu: Any) -> dict[str, Any]:
    def first(*paths: str) -> str | None:
        return next((text for text in map(gpu.findtext, paths) if text and number(text) is not None), None)

    def flag(path: str) -> bool | None:
        return {"Yes": True, "No": False}.get((gpu.findtext(path) or "").strip())

    action = (gpu.findtext("gpu_recovery_action") or "").strip().lower().replace(" ", "_")
    ecc = [whole(one.text) for one in gpu.iterfind("ecc_errors/volatile/*") if "uncorrectable" in one.tag]
    counted = [one for one in ecc if one is not None]
    reasons = list(gpu.iterfind("clocks_event_reasons/*")) or list(gpu.iterfind("clocks_throttle_reasons/*"))
    active = [re.sub("^clocks_(event|throttle)_reason_", "", one.tag) for one in reasons if one.text == "Active"]
    return {
        "index": index,
        "uuid": clean(gpu.findtext("uuid") or "") or None,
        "model": clean(gpu.findtext("product_name") or "") or None,
        "memory_mib": whole(first("fb_memory_usage/total")),
        "memory_used_mib": whole(first("fb_memory_usage/used")),
        "utilization": whole(first("utilization/gpu_util")),
        "power_w": number(
            first(
                "gpu_power_readings/power_draw",
                "gpu_power_readings/instant_power_draw",
                "power_readings/power_draw",
            )
        ),
        "temperature_c": whole(first("temperature/gpu_temp")),
        "sm_clock_mhz": whole(first("clocks/sm_clock")),
        "throttle": sum(SMI_REASONS.get(name, 0) for name in active) if reasons else None,
        "ecc_uncorrected": sum(counted) if counted else None,
        "remap_pending": flag("remapped_rows/remapped_row_pending"),
        "remap_failed": flag("remapped_rows/remapped_row_failure"),
        "recovery_action": _smi_action(action),
    }


def _smi_action(text: str) -> str | None:
    """Of "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset"."""
    if not text or text == "n/a":
        return None
    short = text.replace("gpu_", "").replace("node_", "")
    return short if short in RECOVERY else "unknown"


# --- AMD ------------------------------------------------------------------------------------------------------


def from_amd_smi(_details: bool) -> Iterator[dict[str, Any]]:
    """GPUs of AMD, from amd-smi's JSON. ROCm 7 puts the list into `gpu_data`."""
    static, metric = _amd_list("static"), _amd_list("metric")
    if not static:
        return
    listed = {one.get("gpu"): one for one in _amd_list("list")}
    measured = {one.get("gpu"): one for one in metric}
    driver = _at(static[0], "driver", "version")
    yield {"driver": {"vendor": "amd", "source": "amd-smi", "driver_version": _known(driver), "cuda_version": None}}
    for index, gpu in enumerate(static):
        name = gpu.get("gpu")
        yield {"gpu": _amd_gpu(index, gpu, measured.get(name, {}), listed.get(name, {}))}


def _amd_list(command: str) -> list[dict[str, Any]]:
    text = output("amd-smi", command, "--json")
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    if isinstance(found, dict):
        found = found.get("gpu_data", [])
    return [one for one in found if isinstance(one, dict)]


def _amd_gpu(index: int, static: Any, metric: Any, listed: Any) -> dict[str, Any]:
    clock = _at(metric, "clock", "gfx_0", "clk")
    return {
        "index": index,
        "uuid": _known(listed.get("uuid")) or _known(_at(static, "asic", "asic_serial")),
        "model": _known(_at(static, "asic", "market_name")),
        "memory_mib": whole(_at(metric, "mem_usage", "total_vram")) or whole(_at(static, "vram", "size")),
        "memory_used_mib": whole(_at(metric, "mem_usage", "used_vram")),
        "utilization": whole(_at(metric, "usage", "gfx_activity")),
        "power_w": number(_at(metric, "power", "socket_power")),
        "temperature_c": whole(_at(metric, "temperature", "hotspot")),
        "sm_clock_mhz": whole(clock),
        "ecc_uncorrected": whole(_at(metric, "ecc", "total_uncorrectable_count")),
    }


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _known(value: Any) -> str | None:
    return None if value in (None, "", "N/A") else clean(value)


def from_rocm_smi(_details: bool) -> Iterator[dict[str, Any]]:
    """The same from rocm-smi, for images without amd-smi."""
    text = output(
        "rocm-smi", "--showproductname", "--showuniqueid", "--showmeminfo", "vram", "--showuse", "--showtemp",
        "--showpower", "--showclocks", "--showdriverversion", "--json",
    )  # fmt: skip
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return
    cards = sorted((key for key in found if re.match(r"card\d+$", key)), key=lambda key: int(key[4:]))
    if not cards:
        return
    driver = _known(_at(found, "system", "Driver version"))
    yield {"driver": {"vendor": "amd", "source": "rocm-smi", "driver_version": driver, "cuda_version": None}}
    for index, name in enumerate(cards):
        yield {"gpu": _rocm_gpu(index, found[name])}


def _rocm_gpu(index: int, card: Any) -> dict[str, Any]:
    def first(*keys: str) -> Any:
        return next((card[key] for key in keys if card.get(key) not in (None, "", "N/A")), None)

    total, used = number(first("VRAM Total Memory (B)")), number(first("VRAM Total Used Memory (B)"))
    clock = re.search(r"(\d+)\s*Mhz", str(first("sclk clock speed:")), re.IGNORECASE)
    return {
        "index": index,
        "uuid": _known(first("Unique ID")),
        "model": _known(first("Card Series", "Card series", "Card Model", "Card model")),
        "memory_mib": int(total) >> 20 if total is not None else None,
        "memory_used_mib": int(used) >> 20 if used is not None else None,
        "utilization": whole(first("GPU use (%)")),
        "power_w": number(first("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")),
        "temperature_c": whole(first("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")),
        "sm_clock_mhz": int(clock.group(1)) if clock else None,
    }


# --- what the GPUs say, from the first source that knows ------------------------------------------------------

SOURCES = (from_nvml, from_nvidia_smi, from_amd_smi, from_rocm_smi)


class Reading:
    """The driver and the GPUs at one moment."""

    def __init__(self) -> None:
        self.driver: dict[str, Any] = {}
        self.gpus: list[dict[str, Any]] = []
        self.errors: list[str] = []

    def take(self, source: Any, details: bool) -> None:
        values, error = isolated(lambda: source(details), DRIVER_SECONDS)
        for value in values:
            self.driver = value.get("driver", self.driver)
            self.gpus += [value["gpu"]] if "gpu" in value else []
            self.errors += [value["error"]] if "error" in value else []
        # the absence of a library is no error by itself: another source may know the GPUs
        if error is not None and not error.startswith("OSError"):
            self.errors.append("%s: %s" % (source.__name__[5:], error))


def read_gpus(known: Any, details: bool) -> tuple[Reading, Any]:
    """The first source that finds a driver; `known`, if one was found before. Returns the reading and the source."""
    reading = Reading()
    for source in (known,) if known else SOURCES:
        reading.take(source, details)
        if reading.driver or _STUCK:
            return reading, source if reading.driver else None
    return reading, None


# --- CUDA: the multiplication of the proof, and the benchmark -------------------------------------------------


class CudaError(Exception):
    """A failed call. `broken`: the GPU itself failed, not the software around it."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__("%s returned %d" % (name, code))
        # uncorrectable ECC, contained and hardware errors, and errors of a running kernel
        self.broken = code in (214, 220, 221, 226) or 700 <= code < 800


FP32, FP16, BF16 = 0, 2, 14
COMPUTE_FP32 = 68
CUBLAS_PLACES = (
    "/usr/local/cuda*/targets/*/lib", "/usr/local/cuda*/lib64", "/usr/lib/*-linux-gnu", "/opt/conda/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/cublas/lib", "/usr/lib/python3/dist-packages/nvidia/cublas/lib",
    "/opt/nvidia/*/lib",
)  # fmt: skip


class Cuda:
    """The CUDA driver and cuBLAS through ctypes. Raises OSError without them."""

    def __init__(self) -> None:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        self.driver = load("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        version = ctypes.c_int()
        newest = 13
        if hasattr(self.driver, "cuDriverGetVersion"):
            self.call("cuDriverGetVersion", ctypes.byref(version))
            newest = version.value // 1000
        self.blas = self._blas(newest)
        self.count = self.number(ctypes.c_int, "cuDeviceGetCount")

    @staticmethod
    def _blas(newest: int) -> Any:
        """cuBLAS for this driver: a library of a newer CUDA does not run on it."""
        last = OSError("cuBLAS is missing")
        for major in range(newest, 10, -1):
            name = "libcublas.so.%d" % major
            for path in [name] + [one for place in CUBLAS_PLACES for one in sorted(glob.glob(place + "/" + name))]:
                try:
                    if "/" in path:
                        ctypes.CDLL(path.replace("libcublas.", "libcublasLt."), mode=ctypes.RTLD_GLOBAL)
                    return ctypes.CDLL(path)
                except OSError as error:
                    last = error
        raise last

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        if code:
            raise CudaError(name, code)

    def blas_call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.blas, name)(*arguments)
        if code:
            raise CudaError(name, -code)

    def number(self, kind: Any, name: str, *arguments: Any) -> int:
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return int(value.value or 0)

    def blas_version(self) -> str:
        parts = []
        for part in range(3):
            value = ctypes.c_int()
            self.blas_call("cublasGetProperty", ctypes.c_int(part), ctypes.byref(value))
            parts.append(str(value.value))
        return ".".join(parts)


class Device:
    """One GPU with its primary context and a cuBLAS handle."""

    def __init__(self, cuda: Cuda, index: int) -> None:
        self.cuda = cuda
        self.device = ctypes.c_int(cuda.number(ctypes.c_int, "cuDeviceGet", ctypes.c_int(index)))
        raw = ctypes.create_string_buffer(16)
        cuda.call("cuDeviceGetUuid", raw, self.device)
        text = raw.raw.hex()
        self.uuid = "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        self.context = ctypes.c_void_p()
        self.handle = ctypes.c_void_p()
        self._memory: list[ctypes.c_uint64] = []

    def open(self) -> None:
        self.cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.select()

    def select(self) -> None:
        self.cuda.call("cuCtxSetCurrent", self.context)

    def close(self) -> None:
        for pointer in self._memory:
            self.cuda.driver.cuMemFree_v2(pointer)
        if self.handle:
            self.cuda.blas.cublasDestroy_v2(self.handle)
        if self.context:
            self.cuda.driver.cuDevicePrimaryCtxRelease_v2(self.device)

    def allocate(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self._memory.append(pointer)
        return pointer

    def multiply(self, shape: tuple[int, int, int], a: Any, b: Any, c: Any, kinds: tuple[int, int]) -> None:
        """C = A · B with A of m × k and B of k × n. `kinds`: data types of the factors and of the result."""
        if not self.handle:
            self.cuda.blas_call("cublasCreate_v2", ctypes.byref(self.handle))
        m, n, k = (ctypes.c_int(size) for size in shape)
        kind, result = ctypes.c_int(kinds[0]), ctypes.c_int(kinds[1])
        one, zero, plain = ctypes.c_float(1.0), ctypes.c_float(0.0), ctypes.c_int(0)
        self.cuda.blas_call(
            "cublasGemmEx", self.handle, plain, plain, m, n, k, ctypes.byref(one), a, kind, m, b, kind, k,
            ctypes.byref(zero), c, result, m, ctypes.c_int(COMPUTE_FP32), ctypes.c_int(-1),
        )  # fmt: skip

    def seconds(self, run: Callable[[], None], least: float) -> float:
        """Seconds of one run, of as many as take about `least` seconds, after a warm-up."""
        run()
        once = max(self._elapsed(run, 1), 1e-6)
        times = max(2, min(2000, int(least / once)))
        return self._elapsed(run, times) / times

    def _elapsed(self, run: Callable[[], None], times: int) -> float:
        events = [ctypes.c_void_p(self.cuda.number(ctypes.c_void_p, "cuEventCreate", ctypes.c_uint(0))) for _ in "ab"]
        stream = ctypes.c_void_p()
        self.cuda.call("cuEventRecord", events[0], stream)
        for _ in range(times):
            run()
        self.select()
        self.cuda.call("cuEventRecord", events[1], stream)
        self.cuda.call("cuEventSynchronize", events[1])
        took = ctypes.c_float()
        self.cuda.call("cuEventElapsedTime", ctypes.byref(took), events[0], events[1])
        return took.value / 1000


def check_multiplication() -> Iterator[dict[str, Any]]:
    """Multiplies matrices of one value on each GPU and compares every element of the result."""
    cuda = Cuda()
    for index in range(cuda.count):
        device = Device(cuda, index)
        try:
            yield {"uuid": device.uuid, "matmul": "passed" if _multiplies(device) else "failed"}
        except CudaError as error:
            yield {"uuid": device.uuid, "matmul": "failed" if error.broken else "skipped", "error": str(error)}
        finally:
            device.close()


def _multiplies(device: Device) -> bool:
    size, expected = 1024, 1.5 * 2.0 * 1024
    device.open()
    a, b, c = device.allocate(size * size * 2), device.allocate(size * size * 2), device.allocate(size * size * 4)
    elements = ctypes.c_size_t(size * size)
    device.cuda.call("cuMemsetD16_v2", a, ctypes.c_ushort(0x3E00), elements)  # 1.5 in fp16
    device.cuda.call("cuMemsetD16_v2", b, ctypes.c_ushort(0x4000), elements)  # 2.0
    device.cuda.call("cuMemsetD32_v2", c, ctypes.c_uint(0), elements)
    for _ in range(20):
        device.multiply((size, size, size), a, b, c, (FP16, FP32))
    found = ctypes.create_string_buffer(size * size * 4)
    device.cuda.call("cuMemcpyDtoH_v2", found, c, ctypes.c_size_t(len(found)))
    return found.raw == struct.pack("<f", expected) * (size * size)


SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (6144, 17920, 2816), (2048, 2048, 13312))
LARGEST = 6144 * 17920
"""Elements of the largest matrix of these shapes."""
TYPES = (("bf16", BF16, 2, 0x807F, 0x3F00), ("fp16", FP16, 2, 0x83FF, 0x3800), ("fp32", FP32, 4, 0x807FFFFF, 0x3F000000))
"""Name, cuBLAS's number, bytes, and masks that make of random bits numbers from 0.5 to 1 of either sign."""


def measure(until: float) -> Iterator[dict[str, Any]]:
    """First the library, then the figures of each GPU, as far as the time goes."""
    cuda = Cuda()
    yield {"cublas": cuda.blas_version()}
    each = min(0.3, (until - time.monotonic()) / (cuda.count * 18 or 1))
    for index in range(cuda.count):
        device = Device(cuda, index)
        try:
            yield {"gpu": _figures(device, each, until)}
        except CudaError as error:
            yield {"error": "GPU %d: %s" % (index, error)}
        finally:
            device.close()


def _figures(device: Device, each: float, until: float) -> dict[str, Any]:
    device.open()
    a, b, c = (device.allocate(LARGEST * 4) for _ in range(3))
    figures: dict[str, Any] = {"uuid": device.uuid}
    for name, kind, width, keep, put in TYPES:
        _fill(device, (a, b), width, keep, put)
        best = 0.0
        for shape in SHAPES:
            if time.monotonic() > until:
                break
            try:
                took = device.seconds(lambda shape=shape, kind=kind: device.multiply(shape, a, b, c, (kind, kind)), each)
            except CudaError as error:
                if error.broken:
                    raise
                break  # a GPU without this data type
            best = max(best, 2.0 * shape[0] * shape[1] * shape[2] / took / 1e12)
        figures[name + "_tflops"] = round(best, 2) or None
    size, stream = ctypes.c_size_t(LARGEST * 4), ctypes.c_void_p()
    took = device.seconds(lambda: device.cuda.call("cuMemcpyDtoDAsync_v2", b, a, size, stream), each)
    figures["memory_gbps"] = round(2 * size.value / took / 1e9, 1)
    host = ctypes.c_void_p()
    device.cuda.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(_HOST_BYTES), ctypes.c_uint(0))
    part = ctypes.c_size_t(_HOST_BYTES)
    took = device.seconds(lambda: device.cuda.call("cuMemcpyHtoDAsync_v2", a, host, part, stream), each)
    figures["host_to_device_gbps"] = round(_HOST_BYTES / took / 1e9, 2)
    took = device.seconds(lambda: device.cuda.call("cuMemcpyDtoHAsync_v2", host, a, part, stream), each)
    figures["device_to_host_gbps"] = round(_HOST_BYTES / took / 1e9, 2)
    device.cuda.call("cuMemFreeHost", host)
    return figures


_HOST_BYTES = 128 << 20


def _fill(device: Device, targets: Any, width: int, keep: int, put: int) -> None:
    """Fills matrices with random numbers: a GPU multiplies equal numbers faster than it multiplies real data."""
    size = 4 << 20
    count = size // width
    bits = int.from_bytes(os.urandom(size), "little")
    bits = bits & int.from_bytes(keep.to_bytes(width, "little") * count, "little")
    bits = bits | int.from_bytes(put.to_bytes(width, "little") * count, "little")
    chunk = bits.to_bytes(size, "little")
    for target in targets:
        for offset in range(0, LARGEST * 4 - size + 1, size):
            device.cuda.call("cuMemcpyHtoD_v2", ctypes.c_uint64(target.value + offset), chunk, ctypes.c_size_t(size))


def measure_allreduce() -> Iterator[dict[str, Any]]:
    """The bus bandwidth of an all-reduce over all GPUs. Raises OSError without NCCL."""
    cuda, nccl = Cuda(), load("libnccl.so.2", *sorted(glob.glob("/opt/*/lib/libnccl.so.2")))
    if cuda.count < 2:
        return

    def call(name: str, *arguments: Any) -> None:
        code = getattr(nccl, name)(*arguments)
        if code:
            raise CudaError(name, -code)

    version = ctypes.c_int()
    call("ncclGetVersion", ctypes.byref(version))
    number_of = version.value
    yield {"nccl": "%d.%d.%d" % (number_of // 10000, number_of % 10000 // 100, number_of % 100)}
    devices = [Device(cuda, index) for index in range(cuda.count)]
    elements, buffers = 32 << 20, []
    for device in devices:
        device.open()
        buffers.append(device.allocate(elements * 4))
    handles = (ctypes.c_void_p * len(devices))()
    call("ncclCommInitAll", handles, ctypes.c_int(len(devices)), None)

    def once() -> None:
        call("ncclGroupStart")
        for device, buffer, handle in zip(devices, buffers, handles):
            device.select()
            call(
                "ncclAllReduce", buffer, buffer, ctypes.c_size_t(elements), ctypes.c_int(7), ctypes.c_int(0),
                ctypes.c_void_p(handle), ctypes.c_void_p(),
            )  # fmt: skip
        call("ncclGroupEnd")
        devices[0].select()

    devices[0].select()
    took = devices[0].seconds(once, 0.5)
    count = len(devices)
    yield {"allreduce_gbps": round(elements * 4 * 2 * (count - 1) / count / took / 1e9, 1)}


def run_benchmark(driver_version: str | None) -> dict[str, Any] | None:
    """The benchmark's result; None if nothing could be measured."""
    started = time.monotonic()
    values, _ = isolated(lambda: measure(started + BENCHMARK_SECONDS - 5), BENCHMARK_SECONDS)
    gpus = [value["gpu"] for value in values if "gpu" in value]
    if not gpus:
        return None
    if len(gpus) > 1:
        values += isolated(measure_allreduce, NCCL_SECONDS)[0]
    named: dict[str, Any] = {}
    for value in values:
        named.update(value)
    return {
        "agent": VERSION,
        "driver_version": driver_version,
        "libraries": {"cublas": named.get("cublas"), "nccl": named.get("nccl")},
        "gpus": gpus,
        "allreduce_gbps": named.get("allreduce_gbps"),
        "seconds": round(time.monotonic() - started, 1),
    }


# --- what is sent ---------------------------------------------------------------------------------------------


def pick(gpu: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """The fields that are known: an absent one means unknown, and a report is small."""
    return {name: gpu[name] for name in fields if gpu.get(name) is not None}


def canonical(value: Any) -> bytes:
    """The text under the console line's MAC."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def console_line(token: str, proof: dict[str, Any]) -> bytes | None:
    """The line for the serial console. Details are left out if it would be too long; None if it still is."""
    smaller = [proof, dict(proof, gpus=[_without(gpu, DETAILS) for gpu in proof["gpus"]], benchmark=None)]
    smaller.append(dict(smaller[1], gpus=[_without(gpu, (*DETAILS, "index")) for gpu in proof["gpus"]], errors=[]))
    smaller[2]["xids"] = proof["xids"][-8:]
    for one in smaller:
        mac = hmac.new(token.encode("ascii"), canonical(one), hashlib.sha256).hexdigest()
        rest = canonical({"mac": mac, "proof": one})
        if len(rest) <= LARGEST_LINE - 64:
            return b"gpulease-proof " + rest
    return None


def _without(gpu: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in gpu.items() if name not in names}


class Api:
    """The two calls that the agent makes."""

    def __init__(self, url: str | None, token: str) -> None:
        self._token = token
        self._url = urlsplit(url) if url else None
        self._tls: ssl.SSLContext | None = None

    def post(self, path: str, body: bytes, seconds: float = 10.0) -> int | None:
        """The status of the answer; None without an answer. Redirects are not followed."""
        url = self._url
        if url is None or not url.hostname:
            return None
        if url.scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
            connection: Any = http.client.HTTPSConnection(url.hostname, url.port, timeout=seconds, context=self._tls)
        else:
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=seconds)
        headers = {
            "Authorization": "Bearer " + self._token,
            "Content-Type": "application/json",
            "User-Agent": "gpulease-agent/" + VERSION,
            "Connection": "close",
        }
        try:
            connection.request("POST", url.path.rstrip("/") + path, body, headers)
            return int(connection.getresponse().status)
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()


class Agent:
    """One boot of a VM. State outlives the process, in /run, and ends with the boot."""

    def __init__(self, root: str, config: dict[str, Any]) -> None:
        self.host = Host(root)
        self.config = config
        self.api = Api(config.get("url"), config["token"])
        self.source: Any = None
        self.proof: dict[str, Any] | None = None
        self.benchmark: dict[str, Any] | None = None
        self._folder = root + "/run/gpulease"
        self._held: list[int] = []
        state = self._load()
        self.proved = bool(state.get("proved"))
        self.unsent: list[dict[str, Any]] = list(state.get("unsent", ()))
        ticks = state.get("ticks")
        self.ticks = tuple(ticks) if ticks else None

    # state

    def _load(self) -> dict[str, Any]:
        try:
            with open(self._folder + "/agent.json", encoding="utf-8") as file:
                state = json.load(file)
        except (OSError, ValueError):
            return {}
        same = isinstance(state, dict) and state.get("boot_id") == self.host.boot_id()
        return state if same else {}

    def save(self) -> None:
        state = {"boot_id": self.host.boot_id(), "proved": self.proved, "unsent": self.unsent, "ticks": self.ticks}
        self._write("agent.json", json.dumps(state))

    def _write(self, name: str, text: str) -> None:
        path = self._folder + "/" + name
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".new", path)
        except OSError:
            pass  # the state is a convenience

    @property
    def stopped(self) -> bool:
        """Whether the API has refused the token during this boot."""
        boot = self.host.text("/run/gpulease/stopped").strip()
        return bool(boot) and boot == str(self.host.boot_id())

    def stop(self) -> None:
        self._write("stopped", "%s\n" % self.host.boot_id())

    # the proof

    def take_proof(self) -> dict[str, Any]:
        reading, self.source = read_gpus(None, details=True)
        gpus, errors = reading.gpus[:MOST_GPUS], reading.errors
        if reading.driver.get("vendor") == "nvidia" and gpus:
            self._add_multiplication(gpus, errors)
            self._hold(gpus)
        vendor = reading.driver.get("vendor") or self.host.vendor_on_bus()
        if not reading.driver and vendor != "none" and not errors:
            errors.append("a GPU of %s is on the bus, but no driver answers" % vendor)
        return {
            "version": 1,
            "agent": VERSION,
            "at": round(time.time(), 3),
            "boot_id": self.host.boot_id(),
            "vendor": vendor,
            "source": reading.driver.get("source", "none"),
            "driver_version": reading.driver.get("driver_version"),
            "cuda_version": reading.driver.get("cuda_version"),
            "gpus": [pick(gpu, PROOF_FIELDS) for gpu in gpus],
            "xids": self.host.xids(),
            "errors": [clean(error, 200) for error in errors[:MOST_ERRORS]],
            "benchmark": None,
        }

    @staticmethod
    def _add_multiplication(gpus: list[dict[str, Any]], errors: list[str]) -> None:
        results, error = isolated(check_multiplication, MATMUL_SECONDS)
        outcomes = {one["uuid"]: one for one in results}
        for gpu in gpus:
            outcome = outcomes.get(gpu.get("uuid"), {})
            gpu["matmul"] = outcome.get("matmul", "skipped")
            if "error" in outcome:
                errors.append("GPU %d: %s" % (gpu["index"], outcome["error"]))
        if error is not None and not error.startswith("OSError"):
            errors.append("multiplication: %s" % error)

    def _hold(self, gpus: list[dict[str, Any]]) -> None:
        """Without persistence mode the driver unloads a GPU that nobody uses. An open device file prevents it."""
        for index, gpu in enumerate(gpus):
            if gpu.get("persistence") == 0 and not self._held[index:]:
                try:
                    self._held.append(os.open("%s/dev/nvidia%d" % (self.host.root, index), os.O_RDWR | os.O_CLOEXEC))
                except OSError:
                    return

    def write_console(self, proof: dict[str, Any]) -> None:
        line = console_line(self.config["token"], proof)
        if line is None or not self.config.get("serial", True):
            return

        def write() -> Iterator[bool]:
            for name in ("/dev/ttyS0", "/dev/console"):
                try:
                    with open(self.host.root + name, "ab", 0) as file:
                        file.write(b"\r\n" + line + b"\r\n")
                    yield True
                    return
                except OSError:
                    continue

        isolated(write, CONSOLE_SECONDS)

    def send_proof(self, seconds: float) -> None:
        """Sends the proof, again after errors, for at most `seconds`. A child does it: looking up a name may hang."""
        body, deadline = canonical(self.proof), time.monotonic() + seconds

        def push() -> Iterator[int]:
            for pause in (1, 2, 4, 8, 16):
                status = self.api.post("/v1/agent/proof", body, max(1.0, min(10.0, deadline - time.monotonic())))
                if status is not None and (status < 500 and status != 429):
                    yield status
                    return
                if time.monotonic() + pause > deadline:
                    return
                time.sleep(pause)

        answers, _ = isolated(push, seconds)
        if answers:
            self.proof = None
            if answers[0] == STOP:
                self.stop()

    def prove(self) -> None:
        """Takes the proof, writes it to the console and sends it. Never raises."""
        self.proof = self.take_proof()
        self.proved = True
        self.save()
        self.write_console(self.proof)
        if self.config.get("url"):
            self.send_proof(PUSH_SECONDS)
        else:
            self.proof = None

    # samples

    def take_sample(self) -> dict[str, Any]:
        reading, self.source = read_gpus(self.source, details=False)
        ticks, before = self.host.cpu_ticks(), self.ticks
        self.ticks = ticks
        cpu = None
        if ticks and before and ticks[1] > before[1]:
            cpu = round(max(0.0, min(100.0, 100 * (ticks[0] - before[0]) / (ticks[1] - before[1]))), 1)
        return {
            "at": round(time.time(), 3),
            "gpus": [pick(gpu, SAMPLE_FIELDS) for gpu in reading.gpus[:MOST_GPUS]],
            "cpu_percent": cpu,
            "memory_percent": self.host.memory_percent(),
            "disk_percent": self.host.disk_percent(),
        }

    def body(self) -> bytes:
        """The request with the unsent samples. The oldest go if it is too large."""
        xids = self.host.xids()
        while True:
            report = {
                "version": 1,
                "agent": VERSION,
                "boot_id": self.host.boot_id(),
                "samples": self.unsent,
                "xids": xids,
                "benchmark": self.benchmark,
            }
            text = canonical(report)
            if len(text) <= LARGEST_BODY or (len(self.unsent) < 2 and not xids):
                return text
            if len(self.unsent) > 1:
                self.unsent = self.unsent[1:]
            else:
                xids = xids[len(xids) // 2 + 1 :]

    def sample(self) -> None:
        """Takes a sample and sends all unsent ones."""
        self.unsent = [*self.unsent, self.take_sample()][-MOST_SAMPLES:]
        status = self.api.post("/v1/agent/samples", self.body())
        if status == STOP:
            self.stop()
        if status is not None and (200 <= status < 300 or status in GIVE_UP):
            self.unsent, self.benchmark = [], None
        if self.unsent:
            self.save()

    def run(self, interval: float) -> None:
        """The service. `READY=1` lets the boot go on to the tenant's script: always, whatever happens here."""
        try:
            if not self.proved and not self.stopped:
                self.prove()
                if self.config.get("benchmark") and self.config.get("url"):
                    self.benchmark = run_benchmark((self.proof or {}).get("driver_version") or self._driver_version())
        finally:
            notify("READY=1")
        tick, following = 0, time.monotonic()
        while self.config.get("url") and not self.stopped:
            if self.proof is not None and tick < PROOF_TICKS:
                self.send_proof(min(5.0, interval))
            self.sample()
            if tick == 0:
                self.save()
            tick += 1
            following = max(following + interval, time.monotonic() + interval / 2)
            time.sleep(max(0.0, following - time.monotonic()))

    def _driver_version(self) -> str | None:
        return read_gpus(self.source, details=False)[0].driver.get("driver_version")


def notify(text: str) -> None:
    """Tells systemd, where it waits."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            try:
                sender.sendto(text.encode(), "\0" + path[1:] if path.startswith("@") else path)
            except OSError:
                pass


def read_config(path: str) -> dict[str, Any] | None:
    """The configuration: `url`, `token`, `serial`, `benchmark`, `interval`."""
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        print("gpulease-agent: %s: %s" % (path, error), file=sys.stderr)
        return None
    return config if isinstance(config, dict) and isinstance(config.get("token"), str) else None


def main(arguments: list[str]) -> int:
    """Runs one command."""
    options = dict(zip(arguments[1::2], arguments[2::2]))
    command = arguments[0] if arguments else ""
    if command not in ("run", "proof", "sample", "show", "benchmark") or len(arguments) % 2 == 0:
        print((__doc__ or "See docs/gpu-agent.md").strip(), file=sys.stderr)
        return 2
    root = options.get("--root", "")
    config = read_config(options.get("--config", root + "/etc/gpulease/agent.json"))
    if config is None:
        if command not in ("show", "benchmark"):
            notify("READY=1")
            return 1
        config = {"token": ""}
    agent = Agent(root, config)
    if command == "run":
        agent.run(max(0.05, float(options.get("--interval") or config.get("interval") or INTERVAL)))
    elif command == "proof":
        agent.prove()
        return 0 if agent.proof is None else 1
    elif command == "sample":
        agent.sample()
        agent.save()
    elif command == "show":
        print(json.dumps({"proof": agent.take_proof(), "sample": agent.take_sample()}, indent=1))
    else:
        result = run_benchmark(agent._driver_version())
        print(json.dumps(result, indent=1))
        return 0 if result else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
