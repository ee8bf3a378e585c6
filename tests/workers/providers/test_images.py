"""Images by name at the three clouds, and what an image says of its driver."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.gcp import accounts as gcp_accounts
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider
from workers.providers.common.images import driver_version
from workers.providers.errors import ImageMissing
from workers.providers.ports import Provider

SETTINGS = read_settings(call_timeout=60.0)
REGIONS = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}
IMAGES = {
    "aws": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    "gcp": "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580",
    "azure": "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025090901",
}


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running() as sim:
        yield sim


def connect(cloud: str, sim: Control, folder: Path) -> Provider:
    images = {"old": IMAGES[cloud]}
    if cloud == "gcp":
        return gcp_accounts.provider(sim.url, folder, images=images)
    if cloud == "azure":
        return AzureProvider(azure_accounts.account(sim.url, images=images), SETTINGS)
    account = AwsAccount(provider="aws", name="sim", regions=(REGIONS["aws"],), endpoint_url=sim.url, images=images)
    return AwsProvider(account, SETTINGS)


@pytest.mark.parametrize("cloud", IMAGES)
def test_a_name_leads_to_another_image_than_none(cloud: str, sim: Control, tmp_path: Path) -> None:
    provider = connect(cloud, sim, tmp_path)
    named, default = provider.image(REGIONS[cloud], "old"), provider.image(REGIONS[cloud])
    assert "22" in named.name
    assert named.id != default.id
    with pytest.raises(ImageMissing, match="no image named new"):
        provider.image(REGIONS[cloud], "new")


def test_google_tells_the_drivers_version_in_the_family(sim: Control, tmp_path: Path) -> None:
    assert connect("gcp", sim, tmp_path).image(REGIONS["gcp"]).driver_version == "595"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ubuntu-accelerator-2404-amd64-with-nvidia-580", "580"),
        ("Ours, Ubuntu 24.04, NVIDIA driver 580.95.05, CUDA 13", "580.95.05"),
        ("nvidia-open-driver-570", "570"),
        ("Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261113", None),
        ("microsoft-dsvm:ubuntu-hpc:2204:22.04.2026060801", None),
        (None, None),
    ],
)
def test_only_a_version_beside_the_makers_name_counts(text: str | None, version: str | None) -> None:
    assert driver_version(text) == version


@pytest.mark.parametrize("images", [{"Py Torch": "ami-1"}, {"pytorch": ""}, {"-x": "ami-1"}])
def test_a_name_that_no_request_can_have_is_refused_with_the_file(images: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="images"):
        AwsAccount(provider="aws", name="sim", regions=(REGIONS["aws"],), images=images)
