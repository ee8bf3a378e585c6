"""The functions of the CUDA driver, cuBLAS and NCCL that the agent calls. Each GPU has a clock that work moves on.

A multiplication of matrices that hold one value everywhere gives the right result, so that the agent's check is real.
"""

from __future__ import annotations

import ctypes
import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudsim.gpus.state import Gpus

_OK, _INVALID, _NOT_SUPPORTED, _LOST = 0, 1, 15, 719
_FP32, _FP16, _BF16 = 0, 2, 14
_NAMES = {_FP32: "fp32", _FP16: "fp16", _BF16: "bf16"}


@dataclass(slots=True)
class _Devices:
    """What all libraries of one process share: the current device, clocks in milliseconds, contents of memory."""

    current: int = 0
    clocks: dict[int, float] = field(default_factory=dict)
    events: dict[int, float] = field(default_factory=dict)
    contents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Address -> (bytes of one element, its bits)."""
    last: int = 0x7F0000000000

    def work(self, seconds: float) -> None:
        """Moves the clock of the current device on."""
        self.clocks[self.current] = self.clocks.get(self.current, 0.0) + seconds * 1000

    def address(self, size: int) -> int:
        """A new address. No memory is behind it."""
        self.last += max(512, size)
        return self.last


DEVICES = _Devices()


class _Library:
    def __init__(self, path: Path) -> None:
        self._path = path

    def _gpus(self) -> Gpus:
        return Gpus.read(self._path)

    def _of(self, name: str, default: Any) -> Any:
        return self._gpus().of(DEVICES.current, name, default)

    @property
    def _rate(self) -> float:
        return float(self._of("rate", 1.0))


class FakeCuda(_Library):
    """libcuda: contexts, memory, copies and events."""

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = self._gpus().cuda_number
        return _OK

    def cuInit(self, flags: Any) -> int:
        return _OK

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self._gpus().count
        return _OK

    def cuDeviceGet(self, device: Any, ordinal: Any) -> int:
        device._obj.value = _int(ordinal)
        return _OK

    def cuDeviceGetUuid(self, target: Any, device: Any) -> int:
        raw = uuid.UUID(self._gpus().uuid(_int(device)).removeprefix("GPU-")).bytes
        ctypes.memmove(target, raw, len(raw))
        return _OK

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        if self._gpus().of(_int(device), "lost"):
            return _LOST
        context._obj.value = _int(device) + 1
        return _OK

    def cuDevicePrimaryCtxReset_v2(self, device: Any) -> int:
        return _OK

    def cuCtxSetCurrent(self, context: Any) -> int:
        DEVICES.current = _int(context) - 1
        return _OK

    def cuCtxSynchronize(self) -> int:
        return _OK

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:
        pointer._obj.value = DEVICES.address(_int(size))
        return _OK

    def cuMemFree_v2(self, pointer: Any) -> int:
        DEVICES.contents.pop(_int(pointer), None)
        return _OK

    def cuMemHostAlloc(self, pointer: Any, size: Any, flags: Any) -> int:
        pointer._obj.value = DEVICES.address(_int(size))
        return _OK

    def cuMemFreeHost(self, pointer: Any) -> int:
        return _OK

    def cuMemsetD16_v2(self, pointer: Any, bits: Any, count: Any) -> int:
        DEVICES.contents[_int(pointer)] = (2, _int(bits))
        return _OK

    def cuMemsetD32_v2(self, pointer: Any, bits: Any, count: Any) -> int:
        DEVICES.contents[_int(pointer)] = (4, _int(bits))
        return _OK

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> int:
        return self._copy(size)

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:
        base = max((address for address in DEVICES.contents if address <= _int(source)), default=0)
        width, bits = DEVICES.contents.get(base, (4, 0))
        data = bits.to_bytes(width, "little") * (_int(size) // width)
        ctypes.memmove(target, data, len(data))
        return self._copy(size)

    def cuMemcpyHtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        return self._copy(size)

    def cuMemcpyDtoHAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        return self._copy(size)

    def cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        DEVICES.work(2 * _int(size) / (self._gpus().record.memory_gbps * self._rate * 1e9))
        return _OK

    def cuEventCreate(self, event: Any, flags: Any) -> int:
        event._obj.value = DEVICES.address(0)
        return _OK

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        DEVICES.events[_int(event)] = DEVICES.clocks.get(DEVICES.current, 0.0)
        return _OK

    def cuEventSynchronize(self, event: Any) -> int:
        return _OK

    def cuEventDestroy_v2(self, event: Any) -> int:
        return _OK

    def cuEventElapsedTime(self, milliseconds: Any, start: Any, end: Any) -> int:
        milliseconds._obj.value = DEVICES.events[_int(end)] - DEVICES.events[_int(start)]
        return _OK

    def _copy(self, size: Any) -> int:
        DEVICES.work(_int(size) / (self._gpus().record.host_gbps * self._rate * 1e9))
        return _OK


class FakeCublas(_Library):
    """libcublas: one multiplication, and the library's version (12.8.4)."""

    def cublasCreate_v2(self, handle: Any) -> int:
        handle._obj.value = DEVICES.address(0)
        return _OK

    def cublasDestroy_v2(self, handle: Any) -> int:
        return _OK

    def cublasGetProperty(self, kind: Any, value: Any) -> int:
        value._obj.value = (12, 8, 4)[_int(kind)]
        return _OK

    def cublasGemmEx(self, handle: Any, *arguments: Any) -> int:
        """C = alpha · A · B. The arguments are those of cuBLAS, in its order."""
        m, n, k = (_int(argument) for argument in arguments[2:5])
        a, kind, b, c, c_kind = (_int(arguments[place]) for place in (6, 7, 9, 13, 14))
        rate = self._gpus().record.tflops.get(_NAMES[kind])
        if rate is None:
            return _NOT_SUPPORTED
        DEVICES.work(2.0 * m * n * k / (rate * self._rate * 1e12))
        if a in DEVICES.contents and b in DEVICES.contents:
            value = _value(*DEVICES.contents[a], kind) * _value(*DEVICES.contents[b], kind) * k
            if self._of("matmul", "passed") == "failed":
                value += 1
            assert c_kind == _FP32, "only results in fp32 are checked"
            DEVICES.contents[c] = (4, int.from_bytes(struct.pack("<f", value), "little"))
        return _OK


class FakeNccl(_Library):
    """libnccl: one communicator over all GPUs (version 2.26.2). An all-reduce takes its time on each GPU's clock."""

    def ncclGetVersion(self, version: Any) -> int:
        version._obj.value = 22602
        return _OK

    def ncclCommInitAll(self, communicators: Any, count: Any, devices: Any) -> int:
        for index in range(_int(count)):
            communicators[index] = index + 1
        return _OK

    def ncclGroupStart(self) -> int:
        return _OK

    def ncclGroupEnd(self) -> int:
        return _OK

    def ncclAllReduce(self, *arguments: Any) -> int:
        """The arguments are those of NCCL: send, receive, count, type, operation, communicator, stream."""
        gpus, size = self._gpus(), _int(arguments[2]) * 4
        links = gpus.record.nvlinks
        bus = links * 19.5 if links else gpus.record.host_gbps * 0.4
        count = max(2, gpus.count)
        DEVICES.current = _int(arguments[5]) - 1
        DEVICES.work(size * 2 * (count - 1) / count / (bus * self._rate * 1e9))
        return _OK

    def ncclCommDestroy(self, communicator: Any) -> int:
        return _OK


def _value(width: int, bits: int, kind: int) -> float:
    """The number that a memory's element holds."""
    data = bits.to_bytes(width, "little")
    if kind == _FP16:
        return float(struct.unpack("<e", data)[0])
    return float(struct.unpack("<f", (b"\0\0" + data) if kind == _BF16 else data)[0])


def _int(value: Any) -> int:
    return int(getattr(value, "value", value) or 0)
