"""Causes each situation of `situations` and prints the seconds until each view said its name: python -m tests.observability."""

import os
import sys
from pathlib import Path

import pytest

from tests.reports import FOLDER, Table, report

_TEST = Path(__file__).with_name("test_situations.py")


class _Collector:
    """Of each test the seconds that it has measured."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float | None]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest after each phase of a test."""
        measured = dict(report.user_properties).get("seconds")
        if report.when == "call" and isinstance(measured, dict):
            self.rows[report.nodeid.partition("[")[2].removesuffix("]")] = measured


def main() -> int:
    """The exit code of pytest. Arguments are those of pytest, such as `-k silence`."""
    os.environ["GPULEASE_SITUATIONS"] = "all"
    collector = _Collector()
    code = pytest.main(["-q", str(_TEST), *sys.argv[1:]], plugins=[collector])
    rows = [[name, *map(_shown, found.values())] for name, found in collector.rows.items()]
    views = next(iter(collector.rows.values()), {})
    table = Table(title="seconds until each view says it", columns=["situation", *views], rows=rows)
    report(FOLDER / "situations.json", {"situations": collector.rows}, table)
    return int(code)


def _shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f}"


if __name__ == "__main__":
    sys.exit(main())
