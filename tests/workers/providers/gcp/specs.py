"""Launch specifications that fit Compute Engine."""

from typing import Any

from app.domain.tags import OwnerTags
from tests.workers.providers import samples
from tests.workers.providers.gcp.accounts import REGION, ZONE
from workers.providers.types import Image, LaunchSpec

IMAGE = Image(id="projects/images/global/images/driver-ready-v1", name="driver-ready-v1", disk_gib=20)
VM_ID = f"{ZONE}:gpulease-{'a' * 40}:1234"


def spec(of: OwnerTags | None = None, **changes: Any) -> LaunchSpec:
    place = {"region": REGION, "zone": ZONE, "instance_type": "g2-standard-4", "image": IMAGE}
    return samples.spec(of, **(place | changes))
