"""Images: Microsoft's Ubuntu for HPC in a few versions, a vendor's image with terms, and those of a tenant's gallery."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.arm.call import Answer, Call, Document
from cloudsim.arm.catalog import GENERATION_2, PROVIDER, family
from cloudsim.arm.errors import ArmError
from cloudsim.world import Gpu, World

_VERSIONS = {
    ("microsoft-dsvm", "ubuntu-hpc", "2204"): ("22.04.2025090901", "22.04.2026060801", "22.04.2026050101"),
    ("microsoft-dsvm", "ubuntu-hpc", "2204-rocm"): ("22.04.2026051501",),
    ("microsoft-dsvm", "ubuntu-hpc", "2404-rocm"): ("24.04.2026051501", "24.04.2026060801"),
    ("example-vendor", "gpu-workstation", "2404-grid"): ("1.0.0", "1.1.0"),
}
_WITH_TERMS = frozenset({"example-vendor"})
"""Publishers whose images are sold: a VM must name their plan."""
_VIRTUAL = frozenset({"A10", "RTX PRO 6000"})
"""GPUs that Azure shows to VMs as virtual ones: they need NVIDIA's GRID driver."""
_GALLERY_VERSIONS = {"1.0.0": False, "1.1.0": False, "2.0.0": True}
"""Versions of every gallery image, and whether `latest` leaves each out."""
_GALLERY_GIB = 256


@dataclass(frozen=True, slots=True)
class _Marketplace:
    publisher: str
    offer: str
    sku: str

    @property
    def plan(self) -> Document | None:
        """What the PUT of a VM must repeat."""
        if self.publisher not in _WITH_TERMS:
            return None
        return {"name": self.sku, "publisher": self.publisher, "product": self.offer}


def _known(world: World, publisher: str, offer: str, sku: str) -> tuple[str, ...]:
    """The versions of an image that was not removed."""
    if world.restrictions.is_removed(PROVIDER, f"{publisher}:{offer}:{sku}"):
        return ()
    return _VERSIONS.get((publisher, offer, sku), ())


def exact_version(world: World, region: str, publisher: str, offer: str, sku: str, version: str) -> str:
    """What a version or `latest` stands for. Raises ArmError for an image that does not exist."""
    known = _known(world, publisher, offer, sku)
    if version == "latest" and known:
        return max(known)
    if version in known:
        return version
    raise ArmError(
        "PlatformImageNotFound",
        f"The platform image '{publisher}:{offer}:{sku}:{version}' is not available in {region}.",
    )


def check_plan(publisher: str, offer: str, sku: str, plan: Document | None) -> None:
    """Raises ArmError for a VM that does not name the plan of its image."""
    needed = _Marketplace(publisher, offer, sku).plan
    if needed != plan:
        raise ArmError(
            "VMMarketplaceInvalidInput", "Creating a virtual machine from Marketplace image requires Plan information."
        )


def drives(image: str, gpu: Gpu) -> bool:
    """Whether the image has the driver of the GPU; a tenant's own image may have any."""
    if image.startswith("/"):
        return True
    return ("rocm" in image) == (gpu.manufacturer == "AMD") and ("grid" in image or gpu.name not in _VIRTUAL)


def check_generation(image: str, size: str) -> None:
    """Raises ArmError for a size that cannot boot the image. A tenant's image whose id ends with `-gen1` has generation 1."""
    if image.endswith("-gen1") and family(size) in GENERATION_2:
        raise ArmError("BadRequest", f"The selected VM size '{size}' cannot boot Hypervisor Generation '1'.")


def versions(call: Call) -> Answer:
    """`GET …/skus/{sku}/versions`: a bare array, in no particular order."""
    known_versions = _known(call.world, call.path["publisher"], call.path["offer"], call.path["sku"])
    if not known_versions:
        raise ArmError("NotFound", "Artifact: VMImage was not found.")
    return Answer([_version(call, known_version) for known_version in known_versions])


def version(call: Call) -> Answer:
    """`GET …/versions/{version}`: with the plan of an image that is sold. Azure returns no size of such images."""
    place = (call.path["publisher"], call.path["offer"], call.path["sku"])
    if call.path["version"] not in _VERSIONS.get(place, ()):
        raise ArmError("NotFound", "Artifact: VMImage was not found.")
    plan = _Marketplace(*place).plan
    properties = {
        "osDiskImage": {"operatingSystem": "Linux"},
        "hyperVGeneration": "V2",
        **({"plan": plan} if plan is not None else {}),
    }
    return Answer({**_version(call, call.path["version"]), "properties": properties})


def _version(call: Call, name: str) -> Document:
    place = (call.path["publisher"], call.path["offer"], call.path["sku"])
    path = "/Publishers/{}/ArtifactTypes/VMImage/Offers/{}/Skus/{}/Versions".format(*place)
    prefix = f"/Subscriptions/{call.subscription}/Providers/Microsoft.Compute/Locations/{call.path['location']}{path}"
    return {"id": f"{prefix}/{name}", "name": name, "location": call.path["location"]}


def gallery_image(call: Call) -> Answer:
    """`GET …/galleries/{gallery}/images/{name}`: the definition. Every name exists."""
    return Answer({"name": call.name, "properties": {"osType": "Linux", "osState": "Generalized"}})


def gallery_versions(_call: Call) -> Answer:
    """`GET …/images/{name}/versions`."""
    return Answer({"value": [_gallery_version(name) for name in _GALLERY_VERSIONS]})


def gallery_version(call: Call) -> Answer:
    """`GET …/versions/{version}`: with the size of the disk."""
    if call.path["version"] not in _GALLERY_VERSIONS:
        raise ArmError("ResourceNotFound", f"The gallery image version '{call.path['version']}' was not found.")
    return Answer(_gallery_version(call.path["version"]))


def _gallery_version(name: str) -> Document:
    return {
        "name": name,
        "properties": {
            "publishingProfile": {"excludeFromLatest": _GALLERY_VERSIONS[name]},
            "storageProfile": {"osDiskImage": {"sizeInGB": _GALLERY_GIB, "hostCaching": "ReadWrite"}},
        },
    }


def managed_image(call: Call) -> Answer:
    """`GET …/Microsoft.Compute/images/{name}`. Every name exists."""
    return Answer({"name": call.name, "properties": {"storageProfile": {"osDisk": {"diskSizeGB": _GALLERY_GIB}}}})
