#!/usr/bin/python3
"""gpulease agent: proves the GPUs of a leased VM after each boot and reports their health and use once a minute.

What leaves the VM, all of it:
- of the machine: boot id, percent of CPU, memory and the root disk in use;
- of the driver: its version and CUDA's, and the versions of cuBLAS and NCCL if a benchmark ran;
- of each GPU: index, UUID, model, memory (total, used), utilization, power, temperature, SM clock, throttle reasons,
  uncorrectable ECC errors, row remapping, recovery action, NVLinks, result of a multiplication, benchmark figures;
- of the kernel's log: lines "NVRM: Xid" as code, PCI address and time. Other lines are dropped;
- errors of this program: what failed, GPU, code and text.
The agent reads nothing of a user, a process or the network, and accepts no commands. It sends to the URL in its
configuration alone, and writes one line to the serial console.
Usage: gpulease-agent run [--interval SECONDS] | proof | sample | show | benchmark   [--root DIR]
- run: proof (once per boot), benchmark if configured, then a sample each interval, until stopped or refused
- proof, sample: take and send one; show: print both, send nothing; benchmark: measure the GPUs, print the result
- show, benchmark need no configuration. Python 3.8 is enough. See docs/gpu-agent.md of gpulease.
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
from contextlib import closing, suppress
from ctypes import byref
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Callable, Iterator
from urllib.parse import urlsplit

VERSION, CONFIG, MEASURED = "1.0", "/etc/gpulease/agent.json", "/var/lib/gpulease/benchmarked"
LARGEST_BODY, LARGEST_LINE, MOST_OUTPUT = 16384, 4096, 16 << 20
MOST_GPUS, MOST_XIDS, MOST_ERRORS, MOST_SAMPLES = 64, 64, 8, 10
# together less than the 45 seconds after which the tenant's script starts in any case
DRIVER_SECONDS, MATMUL_SECONDS, CONSOLE_SECONDS, PUSH_SECONDS = 15.0, 4.0, 5.0, 20.0
BENCHMARK_SECONDS, NCCL_SECONDS = 45.0, 12.0
# seconds: after which the API does not store a sample; by which the clock may differ from the API's
OLDEST, CLOCK_ERROR = 840, 5
# the largest values that can be true: drivers return others for what they do not know
LIMITS = {
    "memory_mib": 1 << 24, "memory_used_mib": 1 << 24, "utilization": 100, "power_w": 10000, "temperature_c": 300,
    "sm_clock_mhz": 30000, "ecc_uncorrected": 1 << 53, "throttle": 1 << 53,
}  # fmt: skip
SAMPLE_FIELDS = "uuid remap_failed recovery_action " + " ".join(LIMITS)
LONG_LINE_FIELDS = "uuid model memory_mib remap_failed recovery_action matmul"
PROOF_FIELDS = LONG_LINE_FIELDS + " index ecc_uncorrected remap_pending nvlinks_up nvlinks"
_XID = re.compile(r"^\d+,\d+,(\d+),[^;]*;.*?NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,40})\): (\d{1,6})\b")
U32, U64, I32 = ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_int
_STUCK: set[int] = set()  # process groups that hang in a driver and cannot be killed yet


def isolated(work: Callable[[], Iterator[Any]], seconds: float, always: bool = False) -> tuple[list[Any], Any]:
    """What `work` yields, as JSON, and its error or None. A child with a session of its own hangs with a hanging driver."""
    _reap(0.0)
    if _STUCK and not always:
        return [], {"text": "no earlier answer"}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, writing)
    os.close(writing)
    chunk = data = os.read(reading, 1)  # the child's session exists
    deadline, error = time.monotonic() + seconds, None
    while chunk and not error:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            error = {"text": "no answer within %g s" % seconds}
        else:
            chunk = os.read(reading, 65536)
            data += chunk
    os.close(reading)
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    _STUCK.add(child)
    _reap(2.0)
    values = [json.loads(line) for line in data.split(b"\n")[1:-1]]
    if error is None:
        ended = values and isinstance(values[-1], dict) and "end" in values[-1]
        error = values.pop()["end"] if ended else {"text": "it crashed"}
    return values, error


def _work(work: Callable[[], Iterator[Any]], pipe: int) -> None:
    """The child's life. It never returns. A library or program that is missing is no error."""
    try:
        os.setsid()
        with os.fdopen(pipe, "wb", 0) as file:
            end = None
            file.write(b"\n")
            try:
                for value in work():
                    file.write(json.dumps(value).encode() + b"\n")
            except Exception as error:
                end = None if isinstance(error, FileNotFoundError) else failure(error)
            file.write(json.dumps({"end": end}).encode() + b"\n")
    finally:
        os._exit(0)


def failure(error: Exception) -> dict[str, Any]:
    """What is reported of an exception."""
    code = getattr(error, "returncode", None)
    return {"text": "%s: %s" % (type(error).__name__, error) if code is None else "exit status %d" % code, "code": code}


def _reap(seconds: float) -> None:
    """Collects what has ended, for at most `seconds`. The agent inherits what its children have left behind."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for group in list(_STUCK):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                _STUCK.discard(group)
        if not _STUCK or time.monotonic() >= deadline:
            return
        time.sleep(0.005)


def clean(value: Any, longest: int = 100) -> str | None:
    """Printable text of limited length, which the API accepts. None for what programs print instead of a value."""
    text = "".join(c if c.isprintable() else " " for c in str(value).strip())[:longest]
    return None if value is None or text in ("", "N/A") else text


def number(text: Any, kind: Any = float) -> Any:
    """The first number in "51.20 W", {"value": 51.2} or 51.2. None for "N/A"."""
    match = re.match(r"\s*(-?\d+)(\.\d+)?", str(text.get("value") if isinstance(text, dict) else text))
    return kind(match.group(0 if kind is float else 1)) if match else None


def output(*command: str) -> Any:
    """Standard output of a program. Raises OSError, CalledProcessError and OverflowError. `isolated` ends the program."""
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin") + ":/opt/rocm/bin:/usr/local/nvidia/bin"
    env, none = {"PATH": path, "LC_ALL": "C"}, subprocess.DEVNULL
    program: Any = subprocess.Popen(command, stdin=none, stdout=subprocess.PIPE, stderr=none, env=env)
    with program.stdout:
        text = program.stdout.read(MOST_OUTPUT + 1)
    if len(text) > MOST_OUTPUT:
        raise OverflowError(command[0])
    subprocess.CompletedProcess(command, program.wait()).check_returncode()
    return text.decode("utf-8", "replace")


def uptime() -> float:
    """Seconds since the boot, which no change of the clock moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def parsed(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return None


def at(value: Any, *path: str) -> Any:
    """A member deep in a JSON document; None if it is missing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def load(*names: str) -> Any:
    """The first shared library that can be opened. Raises FileNotFoundError."""
    for name in names:
        with suppress(OSError):
            return ctypes.CDLL(name)
    raise FileNotFoundError(names[0])


def in_c(value: Any) -> Any:
    """An argument. Integers take a whole register, which holds every integer type; ctypes would cut them to 32 bits."""
    return ctypes.c_int64(value) if isinstance(value, int) else value


class Host:
    """Files of the machine, below a root that is empty except in tests."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._log, self._rest = -1, b""
        self._xids: dict[tuple[int, str], float] = {}

    def text(self, path: str) -> str:
        """Contents of a small file, empty if it cannot be read."""
        with suppress(OSError), open(self.root + path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
        return ""

    def percentages(self, before: list[int] | None) -> tuple[dict[str, float], list[int]]:
        """Use of CPU, memory and the root disk, as far as it is known, and busy and all CPU ticks since the boot."""
        shares: dict[str, float] = {}
        ticks = [int(item) for item in self.text("/proc/stat").split("\n", 1)[0].split()[1:9]] or [0] * 5
        now = [sum(ticks) - ticks[3] - ticks[4], sum(ticks)]
        if before and now[1] > before[1]:
            shares["cpu_percent"] = 100 * (now[0] - before[0]) / (now[1] - before[1])
        lines = dict(line.split(":", 1) for line in self.text("/proc/meminfo").splitlines() if ":" in line)
        total, free = number(lines.get("MemTotal")), number(lines.get("MemAvailable"))
        if total and free is not None:
            shares["memory_percent"] = 100 * (1 - free / total)
        disk = os.statvfs(self.root or "/")
        used = disk.f_blocks - disk.f_bfree
        shares["disk_percent"] = 100 * used / max(1, used + disk.f_bavail)
        return {name: round(max(0.0, min(100.0, value)), 1) for name, value in shares.items()}, now

    def xids(self, booted: float) -> list[dict[str, Any]]:
        """Xids since the boot at that time: each code of each GPU once, with the time of the newest one."""
        for line in self._kernel_lines():
            match = _XID.search(line)
            if match:
                micro, gpu, code = match.groups()
                self._xids.pop((int(code), gpu), None)
                self._xids[int(code), gpu] = int(micro) / 1e6
        newest = list(self._xids.items())[-MOST_XIDS:]
        return [{"code": code, "gpu": gpu, "at": round(booted + up, 1)} for (code, gpu), up in newest]

    def _kernel_lines(self) -> list[str]:
        """New lines about Xids; none without /dev/kmsg."""
        chunk = b"\n"
        while chunk:
            try:
                if self._log < 0:
                    self._log = os.open(self.root + "/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
                chunk = os.read(self._log, 8192)
            except BrokenPipeError:
                continue  # records that were overwritten are lost
            except OSError:
                break  # no more for now
            self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines if b"Xid" in line]


# --- NVIDIA: NVML, else nvidia-smi ---
def structure(**fields: Any) -> Any:
    return type("Structure", (ctypes.Structure,), {"_fields_": list(fields.items())})


# nvmlMemory_t, nvmlMemory_v2_t, nvmlUtilization_t, nvmlFieldValue_t (the union of its value is read as 8 bytes)
Memory = structure(total=U64, free=U64, used=U64)
MemoryV2 = structure(version=U32, total=U64, reserved=U64, free=U64, used=U64)
Utilization = structure(gpu=U32, memory=U32)
FieldValue = structure(fieldId=U32, scopeId=U32, timestamp=U64, latency=U64, valueType=I32, nvmlReturn=I32, value=U64)
RECOVERY = ("none", "reset", "reboot", "drain_p2p", "drain_and_reset")
RECOVERY_FIELD, NO_FUNCTION, MOST_NVLINKS = 230, 13, 18


class Nvml:
    """libnvidia-ml through ctypes. A function that an old driver lacks gives None."""

    def __init__(self) -> None:
        self.library = load("libnvidia-ml.so.1", "libnvidia-ml.so")

    def call(self, name: str, *arguments: Any) -> int:
        function = getattr(self.library, name, None)
        return int(function(*map(in_c, arguments))) if function else NO_FUNCTION

    def value(self, kind: Any, names: str, *arguments: Any) -> int | None:
        """A number that one of the functions writes to its last argument."""
        for name in names.split():
            value = kind()
            if self.call(name, *arguments, byref(value)) == 0:
                return int(value.value or 0)
        return None

    def text(self, name: str, *arguments: Any) -> str | None:
        buffer = ctypes.create_string_buffer(96)
        return None if self.call(name, *arguments, buffer, 96) else clean(buffer.value.decode("utf-8", "replace"))

    def gpu(self, index: int, handle: Any) -> dict[str, Any]:
        """All that is known of one GPU."""
        power = self.value(U32, "nvmlDeviceGetPowerUsage", handle)
        reasons = "nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons"
        state: dict[str, Any] = {
            "index": index, "uuid": self.text("nvmlDeviceGetUUID", handle),
            "model": self.text("nvmlDeviceGetName", handle), "power_w": None if power is None else power / 1000,
            "temperature_c": self.value(U32, "nvmlDeviceGetTemperature", handle, 0),
            "sm_clock_mhz": self.value(U32, "nvmlDeviceGetClockInfo", handle, 1),
            "throttle": self.value(U64, reasons, handle),
            "ecc_uncorrected": self.value(U64, "nvmlDeviceGetTotalEccErrors", handle, 1, 0),
        }  # fmt: skip
        rates, rows, newer, older = Utilization(), [U32() for _ in range(4)], MemoryV2(), Memory()
        if self.call("nvmlDeviceGetUtilizationRates", handle, byref(rates)) == 0:
            state["utilization"] = rates.gpu
        if self.call("nvmlDeviceGetRemappedRows", handle, *map(byref, rows)) == 0:
            state["remap_pending"], state["remap_failed"] = bool(rows[2].value), bool(rows[3].value)
        newer.version = ctypes.sizeof(MemoryV2) | 2 << 24
        for name, info in (("nvmlDeviceGetMemoryInfo_v2", newer), ("nvmlDeviceGetMemoryInfo", older)):
            if self.call(name, handle, byref(info)) == 0:
                state["memory_mib"], state["memory_used_mib"] = info.total >> 20, info.used >> 20
                break
        field = FieldValue(fieldId=RECOVERY_FIELD)
        if self.call("nvmlDeviceGetFieldValues", handle, 1, byref(field)) == field.nvmlReturn == 0:
            state["recovery_action"] = dict(enumerate(RECOVERY)).get(field.value & 0xFFFFFFFF, "unknown")
        links = [self.value(U32, "nvmlDeviceGetNvLinkState", handle, link) for link in range(MOST_NVLINKS)]
        known = [link for link in links if link is not None]
        if known:
            state["nvlinks"], state["nvlinks_up"] = len(known), known.count(1)
        return state


def driver(source: str, driver_version: Any, cuda_version: Any = None, count: int | None = None) -> dict[str, Any]:
    """The first thing that a source yields. Then come a dictionary for each GPU, and errors."""
    vendor = "nvidia" if source.startswith("nv") else "amd"
    versions = {"driver_version": clean(driver_version), "cuda_version": clean(cuda_version)}
    return {"driver": dict(versions, vendor=vendor, source=source, count=count)}


def from_nvml() -> Iterator[dict[str, Any]]:
    """Raises FileNotFoundError without the library."""
    nvml = Nvml()
    code = nvml.call("nvmlInit_v2")
    if code:
        yield {"error": {"text": "NVML returned %d" % code, "code": code}}
        return
    cuda = nvml.value(I32, "nvmlSystemGetCudaDriverVersion_v2 nvmlSystemGetCudaDriverVersion")
    cuda_version = "%d.%d" % divmod(cuda // 10, 100) if cuda else None
    count = nvml.value(U32, "nvmlDeviceGetCount_v2 nvmlDeviceGetCount")
    yield driver("nvml", nvml.text("nvmlSystemGetDriverVersion"), cuda_version, count)
    for index in range(count or 0):
        handle = ctypes.c_void_p()
        code = nvml.call("nvmlDeviceGetHandleByIndex_v2", index, byref(handle))
        if code:
            yield {"error": {"text": "NVML returned %d" % code, "code": code, "gpu": index}}
        else:
            yield {"gpu": nvml.gpu(index, handle)}


SMI_FIELDS = {
    "memory_mib": "fb_memory_usage/total", "memory_used_mib": "fb_memory_usage/used", "sm_clock_mhz": "clocks/sm_clock",
    "utilization": "utilization/gpu_util", "temperature_c": "temperature/gpu_temp",
}  # fmt: skip


def from_nvidia_smi() -> Iterator[dict[str, Any]]:
    text = output("nvidia-smi", "-q", "-x")
    from xml.etree import ElementTree  # only where NVML is missing

    log = ElementTree.fromstring(text)
    count = number(log.findtext("attached_gpus"), int)
    yield driver("nvidia-smi", log.findtext("driver_version"), log.findtext("cuda_version"), count)
    yield from ({"gpu": _smi_gpu(index, gpu)} for index, gpu in enumerate(log.findall("gpu")))


def _smi_gpu(index: int, gpu: Any) -> dict[str, Any]:
    state: dict[str, Any] = {name: number(gpu.findtext(path), int) for name, path in SMI_FIELDS.items()}
    powers = [number(item.text) for name in ("gpu_power_readings", "power_readings")
              for item in gpu.iterfind(name + "/*") if item.tag.endswith("power_draw")]  # fmt: skip
    errors = [number(item.text, int) for item in gpu.iterfind("ecc_errors/volatile/*") if "uncorrectable" in item.tag]
    counted = [item for item in errors if item is not None]
    for name, tag in (("remap_pending", "pending"), ("remap_failed", "failure")):
        text = gpu.findtext("remapped_rows/remapped_row_" + tag) or ""
        state[name] = {"Yes": True, "No": False}.get(text.strip())
    action = clean((gpu.findtext("gpu_recovery_action") or "").replace(" ", "_"))
    action = action and action.lower().replace("gpu_", "").replace("node_", "")
    state["recovery_action"] = action if action is None or action in RECOVERY else "unknown"
    state["ecc_uncorrected"] = sum(counted) if counted else None
    state["power_w"] = next((item for item in powers if item is not None), None)
    return dict(state, index=index, uuid=clean(gpu.findtext("uuid")), model=clean(gpu.findtext("product_name")))


AMD_FIELDS = {
    "memory_mib": "mem_usage total_vram", "memory_used_mib": "mem_usage used_vram", "power_w": "power socket_power",
    "utilization": "usage gfx_activity", "temperature_c": "temperature hotspot", "sm_clock_mhz": "clock gfx_0 clk",
    "ecc_uncorrected": "ecc total_uncorrectable_count",
}  # fmt: skip
ROCM_FIELDS = {
    "utilization": "GPU use (%)", "temperature_c": "Temperature (Sensor junction) (C)",
    "power_w": "Current Socket Graphics Package Power (W)", "average": "Average Graphics Package Power (W)",
    "total": "VRAM Total Memory (B)", "used": "VRAM Total Used Memory (B)",
}  # fmt: skip


def from_amd_smi() -> Iterator[dict[str, Any]]:
    """ROCm 7 puts the list of GPUs into `gpu_data`, ROCm 6 prints the list itself."""
    reports: list[dict[Any, Any]] = []
    for command in ("static", "metric", "list"):
        report = None
        try:
            report = parsed(output("amd-smi", command, "--json"))
        except subprocess.CalledProcessError as error:
            yield {"error": failure(error)}
        report = report.get("gpu_data") if isinstance(report, dict) else report
        entries = report if isinstance(report, list) else ()
        reports.append({item.get("gpu"): item for item in entries if isinstance(item, dict)})
        if not reports[0]:
            return
    static, metric, listed = reports
    yield driver("amd-smi", at(next(iter(static.values())), "driver", "version"))
    for index, (name, gpu) in enumerate(static.items()):
        state: dict[str, Any] = {
            key: number(at(metric.get(name), *path.split()), int) for key, path in AMD_FIELDS.items()
        }
        state["memory_mib"] = state["memory_mib"] or number(at(gpu, "vram", "size"), int)
        unique = clean(at(listed.get(name), "uuid")) or clean(at(gpu, "asic", "asic_serial"))
        yield {"gpu": dict(state, index=index, uuid=unique, model=clean(at(gpu, "asic", "market_name")))}


def from_rocm_smi() -> Iterator[dict[str, Any]]:
    topics = ("productname", "uniqueid", "use", "temp", "power", "driverversion")
    report = parsed(output("rocm-smi", *("--show" + item for item in topics), "--showmeminfo", "vram", "--json"))
    cards = [key for key in report if re.match(r"card\d+$", key)] if isinstance(report, dict) else []
    if cards:
        yield driver("rocm-smi", at(report, "system", "Driver version"))
    for index, card in enumerate(report[key] for key in sorted(cards, key=lambda key: int(key[4:]))):
        state: dict[str, Any] = {key: number(at(card, title), int) for key, title in ROCM_FIELDS.items()}
        for key, size in (("memory_mib", "total"), ("memory_used_mib", "used")):
            state[key] = None if state[size] is None else state[size] >> 20
        state["power_w"] = state["power_w"] or state["average"]
        model = clean(at(card, "Card Series")) or clean(at(card, "Card series"))
        yield {"gpu": dict(state, index=index, uuid=clean(at(card, "Unique ID")), model=model)}


SOURCES = (from_nvml, from_nvidia_smi, from_amd_smi, from_rocm_smi)


class Reading:
    """The driver and the GPUs at one moment. `known`: the source that answered before. `source`: the one that did now."""

    def __init__(self, known: Any) -> None:
        self.driver: dict[str, Any] = {}
        self.gpus: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.source: Any = None
        until = time.monotonic() + DRIVER_SECONDS
        for source in (known,) if known else SOURCES:
            values, error = isolated(source, DRIVER_SECONDS)
            name = source.__name__[5:].replace("_", "-")
            for value in values:
                self.driver = value.get("driver", self.driver)
                self.gpus += [value["gpu"]] if "gpu" in value and len(self.gpus) < MOST_GPUS else []
                self._add_error(name, value.get("error"))
            self._add_error(name, error)
            if self.driver or _STUCK or time.monotonic() > until:
                self.source = source if self.driver else None
                break

    def _add_error(self, source: str, error: Any) -> None:
        if error is not None and len(self.errors) < MOST_ERRORS:
            where = "GPU %d" % error["gpu"] if "gpu" in error else source
            self.errors.append(dict(error, source=source, text=clean(where + ": " + error["text"], 200)))

    def multiply(self) -> None:
        """Adds the result of a multiplication to each GPU."""
        results, error = isolated(check_multiplication, MATMUL_SECONDS)
        outcomes = {item["uuid"]: item["matmul"] for item in results}
        for gpu in self.gpus:
            gpu["matmul"] = outcomes.get(gpu.get("uuid"), "skipped")
        self._add_error("multiplication", error)


# --- CUDA: the multiplication of the proof, and the benchmark ---
FP32, FP16, COMPUTE_FP32 = 0, 2, 68
CUBLAS_PLACES = (
    "/usr/local/cuda*/targets/*/lib", "/usr/local/cuda*/lib64", "/opt/conda/lib", "/usr/lib/*-linux-gnu",
    "/opt/*/lib/python3*/site-packages/nvidia/cublas/lib", "/usr/lib/python3/dist-packages/nvidia/cublas/lib",
)  # fmt: skip


class CudaError(Exception):
    """A failed call. `broken`: the GPU itself failed, not the software around it."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__("%s returned %d" % (name, code))
        # uncorrectable, contained and NVLink errors, hardware errors, and errors of a running kernel
        self.broken = name.startswith("cu") and (code in (214, 220, 226) or 700 <= code < 800)
        self.broken = self.broken or (name, code) == ("cublasGemmEx", 13)


def called(library: Any, name: str, *arguments: Any) -> None:
    """Calls a function of CUDA, cuBLAS or NCCL. Raises CudaError."""
    code = getattr(library, name)(*map(in_c, arguments))
    if code:
        raise CudaError(name, code)


class Cuda:
    """The CUDA driver and cuBLAS. Raises FileNotFoundError without them."""

    def __init__(self) -> None:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        self.driver = load("libcuda.so.1")
        self("cuInit", 0)
        self.blas = self._load_blas(self.value(I32, "cuDriverGetVersion") // 1000)
        self.count = self.value(I32, "cuDeviceGetCount")

    def __call__(self, name: str, *arguments: Any) -> None:
        called(self.driver, name, *arguments)

    def value(self, kind: Any, name: str, *arguments: Any) -> int:
        """The number that a function writes to its first argument."""
        value = kind()
        self(name, byref(value), *arguments)
        return int(value.value or 0)

    @staticmethod
    def _load_blas(newest: int) -> Any:
        # a library of a newer CUDA does not run on this driver
        names = ["libcublas.so.%d" % major for major in range(newest, 10, -1)]
        files = [item for name in names for place in CUBLAS_PLACES for item in sorted(glob.glob(place + "/" + name))]
        return load(*names, *files)


class Device:
    """One GPU with its primary context and a cuBLAS handle."""

    def __init__(self, cuda: Cuda, index: int) -> None:
        self.cuda = cuda
        self.device = cuda.value(I32, "cuDeviceGet", index)
        self.context, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        raw = ctypes.create_string_buffer(16)
        cuda("cuDeviceGetUuid", raw, self.device)
        self.uuid = "GPU-" + re.sub("^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-", raw.raw.hex())

    def __enter__(self) -> Device:
        self.cuda("cuDevicePrimaryCtxRetain", byref(self.context), self.device)
        self.select()
        called(self.cuda.blas, "cublasCreate_v2", byref(self.handle))
        return self

    def __exit__(self, *error: object) -> None:
        self.cuda.driver.cuDevicePrimaryCtxReset_v2(self.device)  # frees all of it

    def select(self) -> None:
        self.cuda("cuCtxSetCurrent", self.context)

    def allocate(self, size: int) -> int:
        self.select()
        return self.cuda.value(U64, "cuMemAlloc_v2", size)

    def multiply(self, shape: tuple[int, int, int], a: int, b: int, c: int, kinds: tuple[int, int]) -> None:
        """C = A · B with A of m × k and B of k × n. `kinds`: data types of the factors and of the result."""
        (m, n, k), alpha, beta = shape, ctypes.c_float(1.0), ctypes.c_float(0.0)
        called(
            self.cuda.blas, "cublasGemmEx", self.handle, 0, 0, m, n, k, byref(alpha), a, kinds[0], m, b, kinds[0], k,
            byref(beta), c, kinds[1], m, COMPUTE_FP32, -1,
        )  # fmt: skip

    def seconds(self, run: Callable[[], None], least: float) -> float:
        """Seconds of one run, of as many as take about `least` seconds, after a warm-up."""
        run()
        times = max(2, min(2000, int(least / max(self._elapsed(run, 1), 1e-6))))
        return self._elapsed(run, times) / times

    def _elapsed(self, run: Callable[[], None], times: int) -> float:
        start, end = (ctypes.c_void_p(self.cuda.value(ctypes.c_void_p, "cuEventCreate", 0)) for _ in range(2))
        self.cuda("cuEventRecord", start, None)
        for _ in range(times):
            run()
        self.cuda("cuEventRecord", end, None)
        self.cuda("cuEventSynchronize", end)
        took = ctypes.c_float()
        self.cuda("cuEventElapsedTime", byref(took), start, end)
        return took.value / 1000


def check_multiplication() -> Iterator[dict[str, Any]]:
    """Multiplies matrices of one value on each GPU and compares every element of the result."""
    cuda = Cuda()
    for index in range(cuda.count):
        device = Device(cuda, index)
        try:
            yield {"uuid": device.uuid, "matmul": "passed" if _multiplies(device) else "failed"}
        except CudaError as error:
            yield {"uuid": device.uuid, "matmul": "failed" if error.broken else "skipped"}


def _multiplies(device: Device) -> bool:
    side, cuda = 1024, device.cuda
    count = side * side
    with device:
        a, b, c = device.allocate(count * 2), device.allocate(count * 2), device.allocate(count * 4)
        cuda("cuMemsetD16_v2", a, 0x3E00, count)  # 1.5 in fp16
        cuda("cuMemsetD16_v2", b, 0x4000, count)  # 2.0
        cuda("cuMemsetD32_v2", c, 0, count)
        for _ in range(20):
            device.multiply((side, side, side), a, b, c, (FP16, FP32))
        product = ctypes.create_string_buffer(count * 4)
        cuda("cuMemcpyDtoH_v2", product, c, count * 4)
    return product.raw == struct.pack("<f", 1.5 * 2.0 * side) * count


SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (6144, 17920, 2816), (2048, 2048, 13312))
# bytes: of the largest matrix of these shapes in fp32, of copies from and to the host, of random data
LARGEST, ON_HOST, CHUNK = 6144 * 17920 * 4, 128 << 20, 4 << 20
# name, cuBLAS's number, bytes, and masks that make of random bits numbers from 0.5 to 1 of either sign
TYPES = (("bf16", 14, 2, 0x807F, 0x3F00), ("fp16", 2, 2, 0x83FF, 0x3800), ("fp32", 0, 4, 0x807FFFFF, 0x3F000000))


def measure(seconds: float) -> Iterator[dict[str, Any]]:
    """First the library, then the figures of each GPU, as far as the time goes."""
    until, cuda = time.monotonic() + seconds, Cuda()
    version = [I32(), I32(), I32()]
    for place, part in enumerate(version):
        called(cuda.blas, "cublasGetProperty", place, byref(part))
    yield {"cublas": ".".join(str(part.value) for part in version)}
    each = min(0.3, seconds / (cuda.count * 18 or 1))
    for index in range(cuda.count):
        with Device(cuda, index) as device:
            yield {"gpu": _measure_gpu(device, each, until)}


def _measure_gpu(device: Device, each: float, until: float) -> dict[str, Any]:
    figures: dict[str, Any] = {"uuid": device.uuid}
    cuda, (a, b, c) = device.cuda, (device.allocate(LARGEST) for _ in range(3))
    for name, kind, width, keep, put in TYPES:
        _measure_fill(device, (a, b), width, keep, put)
        best = 0.0
        for m, n, k in SHAPES:
            if time.monotonic() > until:
                break
            try:
                took = device.seconds(lambda: device.multiply((m, n, k), a, b, c, (kind, kind)), each)
            except CudaError as error:
                if error.broken:
                    raise
                break  # a GPU without this data type
            best = max(best, 2.0 * m * n * k / took / 1e12)
        figures[name + "_tflops"] = round(best, 2) or None
    host = ctypes.c_void_p(cuda.value(ctypes.c_void_p, "cuMemHostAlloc", ON_HOST, 0))
    copies = (
        ("memory_gbps", 2 * LARGEST, lambda: cuda("cuMemcpyDtoDAsync_v2", b, a, LARGEST, None)),
        ("host_to_device_gbps", ON_HOST, lambda: cuda("cuMemcpyHtoDAsync_v2", a, host, ON_HOST, None)),
        ("device_to_host_gbps", ON_HOST, lambda: cuda("cuMemcpyDtoHAsync_v2", host, a, ON_HOST, None)),
    )
    for title, size, copy in copies:
        figures[title] = round(size / device.seconds(copy, each) / 1e9, 2)
    return figures


def _measure_fill(device: Device, targets: tuple[int, int], width: int, keep: int, put: int) -> None:
    """Fills matrices with random numbers: a GPU multiplies equal numbers faster than it multiplies real data."""
    bits = int.from_bytes(os.urandom(CHUNK), "little")
    ands, ors = (int.from_bytes(mask.to_bytes(width, "little") * (CHUNK // width), "little") for mask in (keep, put))
    chunk = (bits & ands | ors).to_bytes(CHUNK, "little")
    for target in targets:
        for offset in range(0, LARGEST - CHUNK + 1, CHUNK):
            device.cuda("cuMemcpyHtoD_v2", target + offset, chunk, CHUNK)


def measure_allreduce() -> Iterator[dict[str, Any]]:
    """The bus bandwidth of an all-reduce over all GPUs. Raises FileNotFoundError without NCCL."""
    cuda, nccl = Cuda(), load("libnccl.so.2", *sorted(glob.glob("/opt/*/lib/libnccl.so.2")))
    version, elements = I32(), 32 << 20
    called(nccl, "ncclGetVersion", byref(version))
    yield {"nccl": "%d.%d.%d" % (version.value // 10000, version.value // 100 % 100, version.value % 100)}
    devices = [Device(cuda, index).__enter__() for index in range(cuda.count)]
    buffers = [device.allocate(elements * 4) for device in devices]
    handles = (ctypes.c_void_p * len(devices))()
    called(nccl, "ncclCommInitAll", handles, len(devices), None)

    def once() -> None:
        called(nccl, "ncclGroupStart")
        for device, buffer, handle in zip(devices, buffers, handles):
            device.select()  # below, 7 is fp32 and 0 the sum
            called(nccl, "ncclAllReduce", buffer, buffer, elements, 7, 0, ctypes.c_void_p(handle), None)
        called(nccl, "ncclGroupEnd")
        devices[0].select()

    devices[0].select()
    took, count = devices[0].seconds(once, 0.5), len(devices)
    yield {"allreduce_gbps": round(elements * 4 * 2 * (count - 1) / count / took / 1e9, 1)}


def run_benchmark(driver_version: str | None) -> dict[str, Any] | None:
    """The benchmark's result; None if nothing could be measured."""
    started = time.monotonic()
    values, _ = isolated(lambda: measure(BENCHMARK_SECONDS - 5), BENCHMARK_SECONDS)
    gpus = [value["gpu"] for value in values if "gpu" in value]
    if not gpus:
        return None
    values += isolated(measure_allreduce, NCCL_SECONDS)[0] if len(gpus) > 1 else []
    named = {name: figure for value in values for name, figure in value.items()}
    return {
        "agent": VERSION, "driver_version": driver_version, "gpus": gpus, "allreduce_gbps": named.get("allreduce_gbps"),
        "libraries": {"cublas": named.get("cublas"), "nccl": named.get("nccl")},
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip


# --- what is sent ---
def pick(gpu: dict[str, Any], fields: str) -> dict[str, Any]:
    """The fields that are known and can be true: an absent one means unknown, and a report is small."""
    known = {name: gpu[name] for name in fields.split() if gpu.get(name) is not None}
    return {name: value for name, value in known.items() if name not in LIMITS or 0 <= value <= LIMITS[name]}


def canonical(value: Any) -> bytes:
    """The text under the console line's MAC."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def console_line(token: str, proof: dict[str, Any]) -> bytes | None:
    """The line for the serial console. Details are left out if it would be too long; None if it still is."""
    short = dict(proof, gpus=[pick(gpu, LONG_LINE_FIELDS) for gpu in proof["gpus"]], xids=proof["xids"][-8:])
    for item in (proof, short, dict(short, errors=[])):
        mac = hmac.new(token.encode("ascii"), canonical(item), hashlib.sha256).hexdigest()
        line = b"gpulease-proof " + canonical({"mac": mac, "proof": item})
        if len(line) <= LARGEST_LINE:
            return line
    return None


class Reporter:
    """One boot of a VM. `state` has a copy in /run, which outlives the process and ends with the boot.

    `proof`, `benchmark` and `unsent` wait for the API; times in `unsent` are since the boot. `booted`: by the API's clock.
    """

    def __init__(self, root: str, config: dict[str, Any]) -> None:
        self.host, self.config = Host(root), config
        self._url = str(config.get("url") or "").rstrip("/")
        self.driver_version = self._source = self._tls = None
        boot = clean(self.host.text("/proc/sys/kernel/random/boot_id"))
        self.state: dict[str, Any] = {"boot_id": boot, "stopped": False, "proved": False, "proof": None}
        self.state.update(benchmark=None, unsent=[], ticks=None, booted=time.time() - uptime())
        saved = parsed(self.host.text("/run/gpulease/agent.json"))
        self.state.update(saved if at(saved, "boot_id") == boot and saved is not None else {})

    def save(self) -> None:
        self._write("/run/gpulease/agent.json", json.dumps(self.state))

    def _write(self, path: str, text: str) -> None:
        path = self.host.root + path
        with suppress(OSError):  # without it a restart repeats what was done
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".new", path)

    def _post(self, what: str, body: bytes, seconds: float = 10.0) -> list[Any]:
        """Status, media type and date of the answer; nothing without an answer. Redirects are not followed."""
        url = urlsplit("%s/v1/agent/%s" % (self._url, what))
        headers = {"Authorization": "Bearer " + self.config["token"], "Content-Type": "application/json"}
        headers.update({"User-Agent": "gpulease-agent/" + VERSION, "Connection": "close"})
        kind: Any = http.client.HTTPConnection
        options: dict[str, Any] = {"timeout": seconds}
        try:
            if url.scheme == "https":
                self._tls = self._tls or ssl.create_default_context()  # pyrefly: ignore[bad-assignment]
                kind, options = http.client.HTTPSConnection, {"timeout": seconds, "context": self._tls}
            with closing(kind(url.netloc, **options)) as connection:
                connection.request("POST", url.path, body, headers)
                answer = connection.getresponse()
                return [answer.status, answer.headers.get_content_type(), answer.headers.get("Date")]
        except (OSError, http.client.HTTPException, ValueError):
            return []

    def _is_taken(self, answer: list[Any]) -> bool:
        """Whether the API itself took the request, or refused it for good: 401 all of this boot. Its date sets the clock."""
        if not answer or (answer[0] != 204 and answer[1] != "application/problem+json"):
            return False
        self.state["stopped"] = self.state["stopped"] or answer[0] == 401
        with suppress(Exception):  # whatever a date may be
            error = mktime_tz(parsedate_tz(answer[2])) - uptime() - self.state["booted"]
            self.state["booted"] += error if abs(error) > CLOCK_ERROR else 0
        return answer[0] in (204, 400, 401, 413, 422)

    def take_proof(self) -> dict[str, Any]:
        reading = Reading(None)
        self._source, self.driver_version = reading.source, reading.driver.get("driver_version")
        if reading.driver.get("vendor") == "nvidia" and reading.gpus:
            reading.multiply()
        return {
            "version": 1, "agent": VERSION, "at": round(self.state["booted"] + uptime(), 3),
            "boot_id": self.state["boot_id"], "vendor": reading.driver.get("vendor", "none"),
            "source": reading.driver.get("source", "none"), "driver_version": self.driver_version,
            "cuda_version": reading.driver.get("cuda_version"), "driver_gpus": reading.driver.get("count"),
            "gpus": [pick(gpu, PROOF_FIELDS) for gpu in reading.gpus], "errors": reading.errors,
            "xids": self.host.xids(self.state["booted"]),
        }  # fmt: skip

    def send_proof(self, seconds: float) -> None:
        """Sends the proof, again after errors, for at most `seconds`. A child does it: looking up a name may hang."""
        body, deadline = canonical(self.state["proof"]), time.monotonic() + seconds

        def push() -> Iterator[list[Any]]:
            for pause in (1, 2, 4, 8, 16):
                answer = self._post("proof", body, max(1.0, min(10.0, deadline - time.monotonic())))
                yield answer
                if self._is_taken(answer) or time.monotonic() + pause > deadline:
                    return
                time.sleep(pause)

        if any(map(self._is_taken, isolated(push, seconds, always=True)[0])):
            self.state["proof"] = None
        self.save()

    def prove(self) -> None:
        """Takes the proof, writes it to the console and sends it."""
        self.state.update(proof=self.take_proof(), proved=True)
        line = console_line(self.config["token"], self.state["proof"])

        def write() -> Iterator[int | None]:
            for name in ("/dev/ttyS0", "/dev/console"):
                with suppress(OSError), open(self.host.root + name, "ab", 0) as file:
                    yield file.write(b"\r\n%s\r\n" % line)
                    return

        if line is not None and self.config.get("serial", True):
            isolated(write, CONSOLE_SECONDS, always=True)
        self.save()
        if self._url:
            self.send_proof(PUSH_SECONDS)

    def take_sample(self) -> dict[str, Any]:
        reading = Reading(self._source)
        self._source = reading.source
        percentages, self.state["ticks"] = self.host.percentages(self.state["ticks"])
        gpus = [pick(dict(gpu, uuid=gpu["uuid"] or "index-%d" % gpu["index"]), SAMPLE_FIELDS) for gpu in reading.gpus]
        return dict(percentages, at=uptime(), gpus=gpus, driver_gpus=reading.driver.get("count"), errors=reading.errors)

    def report(self) -> dict[str, Any]:
        """The request with the unsent samples. If it is too large, the oldest samples go, then Xids."""
        report: dict[str, Any] = {"version": 1, "agent": VERSION, "boot_id": self.state["boot_id"]}
        report.update(xids=self.host.xids(self.state["booted"]), benchmark=self.state["benchmark"])
        report["samples"] = [dict(raw, at=round(self.state["booted"] + raw["at"], 3)) for raw in self.state["unsent"]]
        while len(canonical(report)) > LARGEST_BODY and (len(report["samples"]) > 1 or report["xids"]):
            name = "samples" if len(report["samples"]) > 1 else "xids"
            report[name] = report[name][1:]
        return report

    def sample(self) -> None:
        """Takes a sample and sends all unsent ones."""
        young = [item for item in self.state["unsent"] if uptime() - item["at"] < OLDEST]
        self.state["unsent"] = [*young, self.take_sample()][-MOST_SAMPLES:]
        if not self.state["stopped"] and self._is_taken(self._post("samples", canonical(self.report()))):
            self.state.update(unsent=[], benchmark=None)
        self.save()

    def run(self, interval: float) -> None:
        """The service. `READY=1` lets the boot go on to the tenant's script: always, whatever happens here."""
        try:
            if not self.state["proved"] and not self.state["stopped"]:
                self.prove()
                if self._url and self.config.get("benchmark") and not self.host.text(MEASURED):  # once in the VM's life
                    self._write(MEASURED, "%s\n" % self.state["boot_id"])
                    self.state["benchmark"] = run_benchmark(self.driver_version)
        finally:
            notify("READY=1")
        following = time.monotonic()
        while self._url and not self.state["stopped"]:
            if self.state["proof"] is not None:
                self.send_proof(min(5.0, interval))
            self.sample()
            following = max(following + interval, time.monotonic() + interval / 2)
            time.sleep(max(0.0, following - time.monotonic()))


def notify(text: str) -> None:
    """Notifies systemd, where it waits."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), "\0" + path[1:] if path.startswith("@") else path)


def main(arguments: list[str]) -> int:
    """Runs one command. The configuration holds `url`, `token`, `serial`, `benchmark` and `interval`."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1)  # what a child leaves behind becomes the agent's own
    options, command = dict(zip(arguments[1::2], arguments[2::2])), arguments[0] if arguments else ""
    if command not in ("run", "proof", "sample", "show", "benchmark") or len(arguments) % 2 == 0:
        print((__doc__ or "See docs/gpu-agent.md of gpulease.").strip(), file=sys.stderr)
        return 2
    root = options.get("--root", "")
    config = parsed(Host(root).text(CONFIG))
    if command in ("run", "proof", "sample") and not isinstance(at(config, "token"), str):
        notify("READY=1")
        print("gpulease-agent: %s is missing or has no token" % (root + CONFIG), file=sys.stderr)
        return 1
    agent = Reporter(root, config or {"token": ""})
    if command == "run":
        agent.run(max(0.05, float(options.get("--interval") or agent.config.get("interval") or 60)))
    elif command in ("proof", "sample"):
        (agent.prove if command == "proof" else agent.sample)()
    else:
        proof, agent.state["unsent"] = agent.take_proof(), [agent.take_sample()]
        preview = {"proof": proof, "sample": agent.report()["samples"][0]}
        print(json.dumps(preview if command == "show" else run_benchmark(agent.driver_version), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
