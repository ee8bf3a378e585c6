"""The newest readings of the GPUs of all own leases, from the Prometheus text of GET /v1/metrics/leases."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.cli.client import Api

PATH = "/v1/metrics/leases"

_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_LEASE = "lease_id"
_TEMPERATURE, _POWER = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"


@dataclass
class Readings:
    """Of the GPUs of one lease: degrees Celsius and watts."""

    temperatures: list[float] = field(default_factory=list)
    powers: list[float] = field(default_factory=list)

    @property
    def hottest(self) -> float | None:
        """The highest temperature. None where the driver reports none."""
        return max(self.temperatures, default=None)

    @property
    def power(self) -> float | None:
        """The sum of all GPUs. None where the driver reports none."""
        return sum(self.powers) if self.powers else None


def fetch(api: "Api") -> dict[str, Readings]:
    """The readings by lease id. Raises CliError."""
    return parse(b"".join(api.download(PATH, None, "text/plain")).decode(errors="replace"))


def parse(text: str) -> dict[str, Readings]:
    """The readings by lease id. Other metrics are skipped."""
    by_lease: dict[str, Readings] = defaultdict(Readings)
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match[1] not in {_TEMPERATURE, _POWER}:
            continue
        lease = dict(_LABEL.findall(match[2])).get(_LEASE)
        if lease is not None:
            readings = by_lease[lease]
            (readings.temperatures if match[1] == _TEMPERATURE else readings.powers).append(float(match[3]))
    return dict(by_lease)
