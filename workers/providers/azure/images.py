"""The driver-ready image of a region: Microsoft's Ubuntu image for HPC, or the one that the account pins.

The newest version is asked for at run time and stored with the attempt: "latest" would not say what was launched.
"""

import re
from typing import Any

from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.common.images import driver_version
from workers.providers.errors import ImageMissing, NotFound
from workers.providers.types import Image

DEFAULT = "microsoft-dsvm:ubuntu-hpc:2204:latest"
DISK_GIB = 128
"""Least disk: the API does not tell the size of an image; this one has 64 GiB, of which drivers and CUDA leave little."""

_LATEST = "latest"
_PIN = re.compile(r"[^:/]+:[^:/]+:[^:/]+:(latest|\d+(\.\d+)*)|/subscriptions/.+/images/.+")


def resolve(group: Group, region: str, pin: str | None) -> Image:
    """`pin` is `publisher:offer:sku:version` or an image's resource id. Raises ImageMissing when there is no such image."""
    wanted = pin or DEFAULT
    if _PIN.fullmatch(wanted) is None:
        raise ImageMissing(f"{wanted!r} is neither publisher:offer:sku:version nor an image's id", code="InvalidImage")
    if wanted.startswith("/"):
        return _image(wanted, wanted.rpartition("/images/")[2])
    publisher, offer, sku, version = wanted.split(":")
    versions = _versions(group, region, publisher, offer, sku)
    chosen = max(versions, key=_number, default=None) if version == _LATEST else version
    if chosen is None or chosen not in versions:
        raise ImageMissing(f"{wanted} does not exist in {region}: check `image` of this account", code="ImageNotFound")
    found = f"{publisher}:{offer}:{sku}:{chosen}"
    return _image(found, found)


def _image(of: str, name: str) -> Image:
    return Image(id=of, name=name, disk_gib=DISK_GIB, driver_version=driver_version(name))


def _versions(group: Group, region: str, publisher: str, offer: str, sku: str) -> list[str]:
    try:
        with translated():
            found: Any = group.compute.virtual_machine_images.list(region, publisher, offer, sku)
    except NotFound:
        return []
    return [one["name"] for one in found]


def _number(version: str) -> tuple[int, ...]:
    """22.4.2026 is newer than 22.4.900."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version))
