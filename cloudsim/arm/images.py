"""Marketplace images: Microsoft's Ubuntu for HPC, in a few versions."""

from __future__ import annotations

from cloudsim.arm.call import Answer, Call
from cloudsim.arm.errors import ArmError

_VERSIONS = {
    ("microsoft-dsvm", "ubuntu-hpc", "2204"): ("22.04.2025090901", "22.04.2026060801", "22.04.2026050101"),
    ("microsoft-dsvm", "ubuntu-hpc", "2204-rocm"): ("22.04.2026051501",),
}


def exact_version(region: str, publisher: str, offer: str, sku: str, version: str) -> str:
    """What a version or `latest` stands for. Raises ArmError for an image that does not exist."""
    known = _VERSIONS.get((publisher, offer, sku), ())
    if version == "latest" and known:
        return max(known)
    if version in known:
        return version
    raise ArmError(
        "PlatformImageNotFound",
        f"The platform image '{publisher}:{offer}:{sku}:{version}' is not available in {region}.",
    )


def versions(call: Call) -> Answer:
    """`GET …/skus/{sku}/versions`: a bare array, in no particular order."""
    place = tuple(call.path[name] for name in ("publisher", "offer", "sku"))
    path = "/Publishers/{}/ArtifactTypes/VMImage/Offers/{}/Skus/{}/Versions".format(*place)
    prefix = f"/Subscriptions/{call.subscription}/Providers/Microsoft.Compute/Locations/{call.path['location']}{path}"
    found = _VERSIONS.get((place[0], place[1], place[2]))
    if found is None:
        raise ArmError("NotFound", "Artifact: VMImage was not found.")
    return Answer([{"id": f"{prefix}/{one}", "name": one, "location": call.path["location"]} for one in found])
