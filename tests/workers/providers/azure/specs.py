"""Launch specifications for Azure, complete but for what a test is about."""

from typing import Any

from app.domain.tags import OwnerTags
from tests.workers.providers import samples
from workers.providers.types import Image, LaunchSpec

REGION = "eastus"
IMAGE = Image(id="microsoft-dsvm:ubuntu-hpc:2204:22.04.2026060801", name="driver-ready", disk_gib=128)


def spec(of: OwnerTags | None = None, **changes: Any) -> LaunchSpec:
    place = {"region": REGION, "zone": "eastus-1", "instance_type": "Standard_NC4as_T4_v3", "image": IMAGE}
    return samples.spec(of, **(place | changes))
