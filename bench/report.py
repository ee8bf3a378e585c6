"""One JSON line for each figure."""

import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]


def figure(what: str, value: float, unit: str, baseline: tuple[str, float], **more: Any) -> None:
    """Print one measured figure. `baseline`: what it is compared with, and its value in the same unit and run.

    `more`: further facts of the same measurement, such as percentiles.
    """
    line = {
        "what": what,
        "value": _rounded(value),
        "unit": unit,
        "machine": machine(),
        "commit": commit(),
        "date": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        "baseline": {"what": baseline[0], "value": _rounded(baseline[1])},
        **{name: _rounded(one) if isinstance(one, float) else one for name, one in more.items()},
    }
    print(json.dumps(line), flush=True)


@cache
def machine() -> str:
    """What it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


@cache
def commit() -> str:
    """The checkout's commit, with a plus when files differ from it; `unknown` outside a checkout."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(asked, cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
