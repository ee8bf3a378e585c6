"""Where a lease is placed: the response models of a placement and its image."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, View
from app.api.schemas.costs import PricePerHour, RateParts
from app.api.schemas.hardware import GROWS, Gpu, Network, PlacedLocalDisk
from app.domain.offerings import Market


class Image(View):
    """The driver-ready image that the VM uses.

    `driver_version` is the version of the NVIDIA driver, where the image declares it.
    """

    id: str | None
    name: str | None
    driver_version: str | None


class Placement(View):
    """The lease's current or last offering.

    `instance_id` is the provider's id; it is null until the provider reports it.
    """

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: Annotated[Market, Field(description="The market of the offering. " + GROWS)]
    gpu: Gpu
    vcpus: int
    memory_gib: float
    local_disk_gib: PlacedLocalDisk
    network: Network
    price_per_hour: PricePerHour
    parts: RateParts
    image: Image
    instance_id: str | None
    extendable: Annotated[
        bool,
        Field(description="False: the cloud deletes the VM at the lease's end, and `extend` returns `not_extendable`."),
    ]
    reservation: Annotated[str | None, Field(description="Null outside the market `reserved`.")]
    reserved_until: Annotated[
        Moment | None, Field(description="The latest end of the lease, because its reservation ends. Null: no limit.")
    ]
    queued_at_provider: Annotated[
        Moment | None, Field(description="Since when the VM waits in the provider's own queue. Null once it runs.")
    ]
