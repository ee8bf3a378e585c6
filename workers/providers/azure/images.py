"""The driver-ready image of a region: Microsoft's Ubuntu image for HPC, or an image that the account names.

The adapter looks up the newest version at run time and stores the version with the attempt. "latest" would not record
which image was launched.
"""

import re
from collections.abc import Mapping
from typing import Any

from azure.core.rest import HttpRequest

from app.domain.offerings import Driver
from workers.providers.azure.calls import Document
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.common.images import driver_version
from workers.providers.errors import ImageMissing, NotFound
from workers.providers.types import Image

DEFAULTS: Mapping[Driver, str] = {
    Driver.NVIDIA: "microsoft-dsvm:ubuntu-hpc:2204:latest",
    Driver.AMD_ROCM: "microsoft-dsvm:ubuntu-hpc:2404-rocm:latest",
}
"""Microsoft's public images by driver. There is none with NVIDIA's GRID driver that needs no further installation."""
DISK_GIB = 128
"""Minimum disk size in GiB. Azure returns the size of a tenant's images, but not of images of the marketplace.

The default image has 64 GiB, of which drivers and CUDA leave little free.
"""

SHARED = {"/communitygalleries/": "communityGalleryImageId", "/sharedgalleries/": "sharedGalleryImageId"}
"""Ids of galleries outside of the tenant: their beginning, and their field in `imageReference`."""

_LATEST = "latest"
_PIN = re.compile(
    r"[^:/]+:[^:/]+:[^:/]+:(latest|\d+(\.\d+)*)|/subscriptions/.+/images/.+|/(Community|Shared)Galleries/.+",
    re.IGNORECASE,
)
_IMAGES_API, _GALLERIES_API = "2024-07-01", "2024-03-03"


def resolve(group: Group, region: str, pin: str) -> Image:
    """`pin` is `publisher:offer:sku:version`, or the id of an image, of a gallery image or of its version.

    Raises ImageMissing when no such image exists or the pin has another form.
    """
    if _PIN.fullmatch(pin) is None:
        raise ImageMissing(f"{pin!r} is neither publisher:offer:sku:version nor an image's id", code="InvalidImage")
    if pin.lower().startswith(tuple(SHARED)):
        return _image(pin, pin.rpartition("/images/")[2] or pin, None)
    return _of_gallery(group, pin) if pin.startswith("/") else _of_marketplace(group, region, pin)


def _of_marketplace(group: Group, region: str, pin: str) -> Image:
    publisher, offer, sku, version = pin.split(":")
    versions = _versions(group, region, publisher, offer, sku)
    chosen = max(versions, key=_number, default=None) if version == _LATEST else version
    if chosen is None or chosen not in versions:
        raise ImageMissing(f"{pin} does not exist in {region}: check `image` of this account", code="ImageNotFound")
    with translated():
        document: Any = group.compute.virtual_machine_images.get(region, publisher, offer, sku, chosen)
    properties = document.get("properties") or {}
    resolved = f"{publisher}:{offer}:{sku}:{chosen}"
    return _image(resolved, resolved, None, properties.get("plan"))


def _of_gallery(group: Group, pin: str) -> Image:
    """An image of the tenant: a managed image, or a version of a gallery image. Without a version: the newest one."""
    is_gallery = "/galleries/" in pin.lower()
    api = _GALLERIES_API if is_gallery else _IMAGES_API
    plan = None
    if is_gallery:
        definition, _, version = pin.partition("/versions/")
        plan = _read(group, definition, api).get("properties", {}).get("purchasePlan")
        if not version or version == _LATEST:
            pin = f"{definition}/versions/{_newest(group, definition, api)}"
    profile = _read(group, pin, api).get("properties", {}).get("storageProfile") or {}
    size = (profile.get("osDiskImage") or {}).get("sizeInGB") or (profile.get("osDisk") or {}).get("diskSizeGB")
    return _image(pin, pin.rpartition("/images/")[2], size, plan)


def _newest(group: Group, definition: str, api: str) -> str:
    versions = _read(group, f"{definition}/versions", api).get("value") or ()
    usable = [
        image_version["name"]
        for image_version in versions
        if not (image_version.get("properties", {}).get("publishingProfile") or {}).get("excludeFromLatest")
    ]
    if not usable:
        raise ImageMissing(f"{definition} has no version: check `image` of this account", code="ImageNotFound")
    return str(max(usable, key=_number))


def _read(group: Group, path: str, api: str) -> Document:
    try:
        with translated():
            answer = group.compute.send_request(HttpRequest("GET", path, params={"api-version": api}))
            answer.raise_for_status()
            document: Document = answer.json()
    except NotFound as error:
        raise ImageMissing(f"{path} does not exist: check `image` of this account", code=error.code) from None
    return document


def _image(of: str, name: str, size: int | None, plan: Mapping[str, str] | None = None) -> Image:
    return Image(
        id=of,
        name=name,
        disk_gib=max(DISK_GIB, int(size or 0)),
        driver_version=driver_version(name),
        purchase_plan={key: plan[key] for key in ("name", "publisher", "product")} if plan else None,
    )


def _versions(group: Group, region: str, publisher: str, offer: str, sku: str) -> list[str]:
    try:
        with translated():
            versions: Any = group.compute.virtual_machine_images.list(region, publisher, offer, sku)
    except NotFound:
        return []
    return [version["name"] for version in versions]


def _number(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison: 22.4.2026 is newer than 22.4.900."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version))
