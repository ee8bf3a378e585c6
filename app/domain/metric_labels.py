"""The labels of a VM's samples: the UUIDs of its GPUs, and the name of its lease. Their number over time has a limit.

Root in a VM chooses the UUIDs that it reports, and tenants rename leases. Each new label makes new series in every
Prometheus that reads them. So samples keep no other GPUs than these, and metrics show no other name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

CHANGES_AFTER = timedelta(hours=1)
"""GPUs and name of a VM are each replaced at most once in this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmReport:
    """What is known when samples of a VM arrive. Times are of the database's clock.

    `uuids`: of all GPUs in these samples. `count`: the GPUs of the offering. `proven`: UUIDs that the VM's proof names,
    if it has one, accepted at `proven_at`.
    """

    uuids: Sequence[str]
    boot_id: str | None
    name: str
    count: int
    now: datetime
    proven: Sequence[str] = ()
    proven_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLabels:
    """`uuids`: of at most as many GPUs as the offering has. `boot_id`: of the newest boot that showed no others."""

    uuids: tuple[str, ...]
    uuids_since: datetime
    boot_id: str | None
    name: str
    name_since: datetime

    @classmethod
    def first(cls, report: VmReport) -> Self:
        """Those of an attempt's first report: the GPUs of its proof, and then those that the samples show."""
        return cls(
            uuids=_first([*report.proven, *report.uuids], report.count),
            uuids_since=report.now,
            boot_id=report.boot_id,
            name=report.name,
            name_since=report.now,
        )

    def after(self, report: VmReport) -> "MetricLabels":
        """Those after a later report of the same attempt.

        A place that is free goes to the first GPU that is reported. The set begins anew with a later proof. It also
        begins anew when another boot shows other GPUs, as after a stop and a start on another host: once an hour, because
        root forges boots too.
        """
        labels = self._renamed(report)
        if (
            report.proven_at is not None
            and report.proven_at > self.uuids_since
            and set(report.proven) - set(self.uuids)
        ):
            return replace(labels, **_begun(report, [*report.proven, *report.uuids]))
        uuids = _first([*self.uuids, *report.uuids], max(report.count, len(self.uuids)))
        if set(report.uuids) <= set(uuids):
            return replace(labels, uuids=uuids, boot_id=report.boot_id)
        if report.boot_id != self.boot_id and report.now - self.uuids_since >= CHANGES_AFTER:
            return replace(labels, **_begun(report, report.uuids))
        return replace(labels, uuids=uuids)

    def _renamed(self, report: VmReport) -> "MetricLabels":
        if report.name == self.name or report.now - self.name_since < CHANGES_AFTER:
            return self
        return replace(self, name=report.name, name_since=report.now)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        return cls(
            uuids=tuple(value["uuids"]),
            uuids_since=datetime.fromisoformat(value["uuids_since"]),
            boot_id=value["boot_id"],
            name=value["name"],
            name_since=datetime.fromisoformat(value["name_since"]),
        )

    def as_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "uuids": list(self.uuids),
            "uuids_since": self.uuids_since.isoformat(),
            "boot_id": self.boot_id,
            "name": self.name,
            "name_since": self.name_since.isoformat(),
        }


def _begun(report: VmReport, uuids: Iterable[str]) -> dict[str, Any]:
    return {"uuids": _first(uuids, report.count), "uuids_since": report.now, "boot_id": report.boot_id}


def _first(uuids: Iterable[str], count: int) -> tuple[str, ...]:
    """The first `count` different ones."""
    return tuple(dict.fromkeys(uuids))[:count]
