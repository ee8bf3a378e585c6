"""Driver-ready images of Google's public image projects, by name and by family."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.gce import links
from cloudsim.gce.call import API, Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import not_found
from cloudsim.world import World

_RELEASES = ("20260918", "20261016", "20261113")
_FAMILIES = {
    "ubuntu-os-accelerator-images": (
        "ubuntu-accelerator-2204-amd64-with-nvidia-580",
        "ubuntu-accelerator-2404-amd64-with-nvidia-580",
        "ubuntu-accelerator-2404-amd64-with-nvidia-595",
    ),
    "deeplearning-platform-release": ("common-cu129-ubuntu-2404-nvidia-580",),
}
_DISK_GIB = {"ubuntu-os-accelerator-images": 20, "deeplearning-platform-release": 50}
"""Least boot disk by project."""


@dataclass(frozen=True, slots=True)
class Image:
    """One release of a family."""

    project: str
    family: str
    release: str

    @property
    def disk_gib(self) -> int:
        """The least boot disk."""
        return _DISK_GIB[self.project]

    @property
    def name(self) -> str:
        """Unique in its project."""
        return f"{self.family}-v{self.release}"

    @property
    def link(self) -> str:
        """As other resources refer to it."""
        return f"{API}/projects/{self.project}/global/images/{self.name}"

    def view(self) -> Result:
        """`compute#image`."""
        day = f"{self.release[:4]}-{self.release[4:6]}-{self.release[6:]}"
        return {
            "kind": "compute#image",
            "id": links.number("image", self.name),
            "creationTimestamp": f"{day}T03:14:15.000-08:00",
            "name": self.name,
            "family": self.family,
            "status": "READY",
            "sourceType": "RAW",
            "architecture": "X86_64",
            "diskSizeGb": str(self.disk_gib),
            "guestOsFeatures": [{"type": "UEFI_COMPATIBLE"}, {"type": "GVNIC"}],
            "selfLink": self.link,
        }


IMAGES = tuple(
    Image(project, family, release)
    for project, families in _FAMILIES.items()
    for family in families
    for release in _RELEASES
)


def newest(project: str, family: str) -> Image | None:
    """The family's latest release."""
    return next((image for image in reversed(IMAGES) if (image.project, image.family) == (project, family)), None)


def named(path: str) -> Image | None:
    """The image of `P/global/images/NAME` or `P/global/images/family/FAMILY`."""
    project, _, rest = path.partition("/global/images/")
    if rest.startswith("family/"):
        return newest(project, rest.removeprefix("family/"))
    return next((image for image in IMAGES if (image.project, image.name) == (project, rest)), None)


def get(call: Call) -> Result:
    """images.get. Raises GceError notFound."""
    return _answer(call, named(f"{call.project}/global/images/{call.path['image']}"), call.path["image"])


def get_from_family(call: Call) -> Result:
    """images.getFromFamily. Raises GceError notFound."""
    return _answer(call, newest(call.project, call.path["family"]), call.path["family"])


def _answer(call: Call, image: Image | None, what: str) -> Result:
    if image is None or is_removed(call.world, image):
        raise not_found(f"projects/{call.project}/global/images/{what}")
    return image.view()


def is_removed(world: World, image: Image) -> bool:
    """Whether the image, or its whole family, was removed."""
    return world.restrictions.is_removed(PROVIDER, image.name, image.family)
