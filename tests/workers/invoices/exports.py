"""FOCUS files as the three clouds write them, small, and made by the tests."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INSTANCE_IDS = {
    "aws": "i-0aaaaaaaaaaaaaaa{}",
    "azure": "gpulease-vm{}:5d4c1f3e-0000-4000-8000-00000000000{}",
    "gcp": "us-central1-a:gpulease-vm{}:800000000000000000{}",
}
RESOURCES = {
    "aws": "arn:aws:ec2:us-east-1:123456789012:instance/i-0aaaaaaaaaaaaaaa{}",
    "azure": "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/GPULEASE-VM{}",
    "gcp": "//compute.googleapis.com/projects/42/zones/us-central1-a/instances/800000000000000000{}",
}
DISKS = {
    "aws": "vol-0bbb{}",
    "azure": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/gpulease-vm{}-os",
    "gcp": "//compute.googleapis.com/projects/42/zones/us-central1-a/disk/900{}",
}
VOLUME_DISKS = {
    "aws": "arn:aws:ec2:us-east-1:123456789012:volume/vol-0ccc{}",
    "azure": "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/disks/GPULEASE-VOL-{}",
    "gcp": "//compute.googleapis.com/projects/42/zones/us-central1-a/disks/910{}",
}
DISK_IDS = {
    "aws": "vol-0ccc{}",
    "azure": "gpulease-vol-{}:7e4c1f3e-0000-4000-8000-00000000000{}",
    "gcp": "us-central1-a:gpulease-vol-{}:910{}",
}
NAMES = {"aws": "AWS", "azure": "Microsoft", "gcp": "Google Cloud"}


def instance_id(provider: str, number: int) -> str:
    return INSTANCE_IDS[provider].format(number, number)


def disk_id(provider: str, number: int) -> str:
    """The disk of a volume."""
    return DISK_IDS[provider].format(number, number)


@dataclass
class Export:
    """The lines of one file."""

    provider: str
    account: str = "payer-1"
    month: str = "2026-10"
    rows: list[dict[str, Any]] = field(default_factory=list)

    def vm(self, number: int, day: int, cost: str, **tags: str) -> "Export":
        return self.add(RESOURCES[self.provider].format(number), day, cost, tags)

    def disk(self, number: int, day: int, cost: str, **tags: str) -> "Export":
        return self.add(DISKS[self.provider].format(number), day, cost, tags)

    def volume(self, number: int, day: int, cost: str, **tags: str) -> "Export":
        """A charge for the disk of a volume."""
        return self.add(VOLUME_DISKS[self.provider].format(number), day, cost, tags)

    def add(self, resource: str, day: int, cost: str, tags: Mapping[str, str], **more: str) -> "Export":
        start = f"{self.month}-{day:02}"
        self.rows.append(
            {
                "ProviderName": NAMES[self.provider],
                "BillingAccountId": self.account,
                "BillingPeriodStart": _time(self.provider, f"{self.month}-01"),
                "ChargePeriodStart": _time(self.provider, start),
                "ChargeCategory": "Usage",
                "EffectiveCost": cost,
                "BillingCurrency": "EUR" if self.provider == "azure" else "USD",
                "ResourceId": resource,
                "ServiceName": "Virtual machines",
                "Tags": _tags(self.provider, {f"gpulease-{key}": value for key, value in tags.items()}),
                **({"x_EffectiveCostInUsd": cost} if self.provider == "azure" else {}),
                **more,
            }
        )
        return self

    def write(self, path: Path) -> Path:
        text = csv_text(self.rows)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    every = list(rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(every[0]))
    writer.writeheader()
    writer.writerows(every)
    return stream.getvalue()


def _time(provider: str, day: str) -> str:
    return {"aws": f"{day}T00:00:00.000Z", "azure": f"{day}T00:00Z", "gcp": f"{day} 08:00:00 UTC"}[provider]


def _tags(provider: str, tags: Mapping[str, str]) -> str:
    match provider:
        case "aws":
            return json.dumps({"user_" + key.replace("-", "_"): value for key, value in tags.items()})
        case "azure":
            return json.dumps(tags)
    labels = [{"key": key, "value": value, "x_type": "label"} for key, value in tags.items()]
    return json.dumps([*labels, {"key": "env", "value": None, "x_type": "project_label"}])
