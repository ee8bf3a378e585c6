"""The driver-ready image: the newest of a public family, or what the account pins."""

import re

from workers.providers.common.images import driver_version
from workers.providers.errors import ImageMissing, NotFound
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.sdk import ImagesClient
from workers.providers.types import Image

FAMILIES = (
    "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-amd64-with-nvidia-595",
    "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-amd64-with-nvidia-580",
    "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580",
    "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-580",
)
"""Tried in this order. The first one is in public use since September 2026; no account of ours has confirmed it."""

_GVNIC = "GVNIC"
"""A guest OS feature of images, and the interface type of VMs from them.

Bandwidth above 100 Gbit/s needs gVNIC, and A3 and later types have no other (Compute Engine guide, "Using gVNIC").
"""
_PATH = re.compile(r"projects/([^/]+)/global/images/(family/)?([^/]+)")


def resolve(clients: GcpClients, pin: str | None) -> Image:
    """`pin` is the path of an image or of a family. Raises ImageMissing when there is none."""
    for path in (pin,) if pin is not None else FAMILIES:
        try:
            return _image(clients, path)
        except NotFound:
            continue
    raise ImageMissing(f"no image at {pin or FAMILIES[0]}: check `image` of this account", code="notFound")


def _image(clients: GcpClients, path: str) -> Image:
    match = _PATH.fullmatch(path)
    if match is None:
        raise ImageMissing(f"{path} is not the path of an image: projects/P/global/images/NAME", code="invalid")
    project, family, name = match.groups()
    client = clients.of(ImagesClient)
    if family:
        image = clients.ask(client.get_from_family, project=project, family=name)
    else:
        image = clients.ask(client.get, project=project, image=name)
    return Image(
        id=f"projects/{project}/global/images/{image.name}",
        name=image.name,
        disk_gib=int(image.disk_size_gb),
        driver_version=driver_version(image.name, image.family, image.description),
        nic_type=_GVNIC if any(feature.type_ == _GVNIC for feature in image.guest_os_features) else None,
    )
