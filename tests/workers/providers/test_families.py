"""A launch of every type of the three catalogues: disk, network interface and image; and what accounts cannot buy."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from app.domain.gpus.models import ALIASES
from app.domain.offerings import Driver, InstanceType, Market, Obstacle
from cloudsim.gce.catalog import GVNIC_ONLY, HYPERDISK_ONLY, family
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure.specs import spec as azure_spec
from tests.workers.providers.gcp.accounts import account as gcp_account
from tests.workers.providers.gcp.accounts import provider as gcp_connect
from tests.workers.providers.gcp.specs import IMAGE as GCP_IMAGE
from tests.workers.providers.gcp.specs import spec as gcp_spec
from tests.workers.providers.samples import owner, spec
from workers.providers.aws import catalogue as aws
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure import catalogue as azure
from workers.providers.azure import images as azure_images
from workers.providers.azure.adapter import AzureProvider
from workers.providers.common.images import configured_image
from workers.providers.errors import ImageMissing, InvalidSpec
from workers.providers.gcp import catalogue as gcp
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.ports import Provider
from workers.providers.types import Image

SUBNETS = {"eastus2": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/gpus"}
NOWHERE = "http://127.0.0.1:9"
AWS = AwsAccount(provider="aws", name="sim", regions=("us-east-1",), endpoint_url=NOWHERE)


@pytest.mark.parametrize("kind", aws.load().types.values(), ids=lambda kind: kind.name)
def test_aws(kind: InstanceType) -> None:
    params = AwsProvider(AWS, read_settings()).plan(spec(instance_type=kind.name))
    (interface,) = params["NetworkInterfaces"]
    assert "InterfaceType" not in interface, "an EFA has no peer in a lease of one VM"
    assert ("EnaSrdSpecification" in interface) == (kind.name in aws.load().ena_express)
    assert params["BlockDeviceMappings"][0]["Ebs"]["VolumeType"] == "gp3"


@pytest.mark.parametrize("kind", gcp.load().types.values(), ids=lambda kind: kind.name)
def test_gcp(kind: InstanceType) -> None:
    image = Image(id=GCP_IMAGE.id, name=GCP_IMAGE.name, nic_type="GVNIC")
    provider = GcpProvider(gcp_account(NOWHERE, None), read_settings())
    made = provider.plan(gcp_spec(instance_type=kind.name, image=image))["instance"]
    disk = made["disks"][0]["initializeParams"]["diskType"].rpartition("/")[2]
    assert disk.startswith("hyperdisk-") == (family(kind.name) in HYPERDISK_ONLY)
    assert made["networkInterfaces"][0]["nicType"] == "GVNIC"
    assert made["scheduling"]["onHostMaintenance"] == "TERMINATE"
    machine_type = made["machineType"].rpartition("/")[2]
    gpus = {
        one["acceleratorType"].rpartition("/")[2]: one["acceleratorCount"] for one in made.get("guestAccelerators", ())
    }
    assert gcp.load().name_of(machine_type, gpus) == kind.name
    assert bool(gpus) == kind.name.startswith("n1-")


def test_an_image_without_gvnic_gets_the_interface_that_the_cloud_chooses() -> None:
    provider = GcpProvider(gcp_account(NOWHERE, None), read_settings())
    made = provider.plan(gcp_spec(instance_type="g2-standard-4"))["instance"]
    assert "nicType" not in made["networkInterfaces"][0]
    assert "g2-standard" not in GVNIC_ONLY


@pytest.mark.parametrize("kind", azure.load().types.values(), ids=lambda kind: kind.name)
def test_azure(kind: InstanceType) -> None:
    image = azure_images.DEFAULTS.get(kind.gpu.driver)
    assert (
        (image is None)
        == (kind.gpu.driver is Driver.NVIDIA_GRID)
        == kind.name.endswith(("_A10_v5", "_RTXPRO6000BSE_v6"))
    )
    assert ("rocm" in (image or "")) == ("_MI300X_" in kind.name)
    for security_type, profile in (
        ("Standard", {"securityType": "Standard"}),
        (
            "TrustedLaunch",
            {"securityType": "TrustedLaunch", "uefiSettings": {"secureBootEnabled": False, "vTpmEnabled": True}},
        ),
    ):
        account = azure_accounts.account(NOWHERE, security_type=security_type)
        body = AzureProvider(account, read_settings()).plan(azure_spec(instance_type=kind.name))["vm"]["properties"]
        (interface,) = body["networkProfile"]["networkInterfaceConfigurations"]
        assert interface["properties"]["enableAcceleratedNetworking"] is True
        assert body["securityProfile"] == profile
        assert body["storageProfile"]["osDisk"]["managedDisk"]["storageAccountType"] == "Premium_LRS"


def test_the_accounts_default_image_is_not_used_for_another_driver() -> None:
    account = AWS.model_copy(update={"image": "ami-0123", "driver_images": {"nvidia_grid": "ami-0456"}})
    assert configured_image(account, None) == "ami-0123"
    assert configured_image(account, None, Driver.NVIDIA_GRID) == "ami-0456"
    assert configured_image(account, None, Driver.AMD_ROCM) is None


def test_a_driver_without_an_image_is_an_error_that_names_the_setting() -> None:
    azure_provider = AzureProvider(azure_accounts.account(NOWHERE), read_settings())
    for ask in (azure_provider.image, GcpProvider(gcp_account(NOWHERE, None), read_settings()).image):
        with pytest.raises(ImageMissing, match=r"driver_images\.nvidia_grid"):
            ask("eastus", None, Driver.NVIDIA_GRID)


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running(boot_seconds=0.0) as sim:
        yield sim


def obstacles(provider: Provider, region: str) -> dict[tuple[str, Market], Obstacle | None]:
    return {(one.type.name, one.market): one.obstacle for one in provider.offered(region)}


def test_aws_offers_what_the_account_can_buy_and_says_why_it_cannot_buy_the_rest(sim: Control) -> None:
    account = AWS.model_copy(update={"regions": ("us-east-2",), "endpoint_url": sim.url})
    found = obstacles(AwsProvider(account, read_settings()), "us-east-2")
    assert found["p5e.48xlarge", Market.ON_DEMAND] is Obstacle.RESERVED_ONLY
    assert found["g6f.large", Market.SPOT] is Obstacle.NO_DRIVER_IMAGE
    bought = {key for key, obstacle in found.items() if obstacle is None}
    assert {
        ("p5e.48xlarge", Market.SPOT),
        ("p6-b300.48xlarge", Market.ON_DEMAND),
        ("g7e.2xlarge", Market.SPOT),
    } <= bought
    with_grid = account.model_copy(update={"driver_images": {"nvidia_grid": "ami-0123"}})
    assert obstacles(AwsProvider(with_grid, read_settings()), "us-east-2")["g6f.large", Market.SPOT] is None


def test_gcp_offers_n1_types_where_their_accelerators_are_and_launches_them(sim: Control, tmp_path: Path) -> None:
    gcp_provider = gcp_connect(sim.url, tmp_path)
    places = {(one.type.name, one.zone) for one in gcp_provider.offered("us-central1")}
    assert ("n1-standard-8-1xt4", "us-central1-b") in places
    assert ("n1-standard-8-1xv100", "us-central1-b") not in places
    assert obstacles(gcp_provider, "us-central1")["a4-highgpu-8g", Market.ON_DEMAND] is Obstacle.RESERVED_ONLY
    image = gcp_provider.image("us-central1")
    for name, market in (("n1-standard-8-1xt4", Market.ON_DEMAND), ("a4-highgpu-8g", Market.SPOT)):
        wish = gcp_spec(
            owner(lease=f"lease_{name}"), zone="us-central1-b", instance_type=name, image=image, market=market
        )
        vm = gcp_provider.launch("us-central1", gcp_provider.plan(wish))
        (shown,) = gcp_provider.get("us-central1", [vm.id]).values()
        assert vm.instance_type == name
        assert shown is not None
        assert shown.instance_type == name


def test_the_simulated_google_refuses_what_google_refuses(sim: Control, tmp_path: Path) -> None:
    gcp_provider = gcp_connect(sim.url, tmp_path)
    image = gcp_provider.image("us-central1")
    wish = gcp_spec(zone="us-central1-b", instance_type="a4-highgpu-8g", image=image, market=Market.SPOT)
    params = gcp_provider.plan(wish)
    params["instance"]["disks"][0]["initializeParams"]["diskType"] = "zones/us-central1-b/diskTypes/pd-ssd"
    with pytest.raises(InvalidSpec, match="pd-ssd"):
        gcp_provider.launch("us-central1", params)
    params = gcp_provider.plan(gcp_spec(zone="us-central1-b", instance_type="n1-standard-8-1xt4", image=image))
    params["instance"]["scheduling"]["onHostMaintenance"] = "MIGRATE"
    with pytest.raises(InvalidSpec, match="live migration"):
        gcp_provider.launch("us-central1", params)


@pytest.mark.parametrize("name", ["Standard_ND96isr_MI300X_v5", "Standard_ND96is_MI300X_v5"])
def test_an_amd_gpu_gets_ready_with_amds_driver_alone(sim: Control, name: str) -> None:
    provider = AzureProvider(azure_accounts.account(sim.url, subnet_ids=SUBNETS), read_settings())
    for driver, is_ready in ((Driver.AMD_ROCM, True), (Driver.NVIDIA, False)):
        wish = azure_spec(
            owner(lease=f"lease_{driver}_{name}"),
            region="eastus2",
            zone="eastus2",
            instance_type=name,
            image=provider.image("eastus2", None, driver),
        )
        vm = provider.launch("eastus2", provider.plan(wish))
        assert bool(provider.ready("eastus2", [vm.id])) is is_ready


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Standard_NV6ads_A10_v5", "eastus-1"),
        ("Standard_NC36ds_xl_RTXPRO6000BSE_v6", "eastus-3"),
        ("Standard_NC288lds_xl_RTXPRO6000BSE_v6", "eastus-3"),
    ],
)
def test_a_virtual_gpu_gets_ready_with_the_image_that_the_account_names(sim: Control, name: str, zone: str) -> None:
    grid = {"nvidia_grid": "example-vendor:gpu-workstation:2404-grid:latest"}
    provider = AzureProvider(azure_accounts.account(sim.url, driver_images=grid), read_settings())
    plain = AzureProvider(azure_accounts.account(sim.url), read_settings())
    assert obstacles(plain, "eastus")[name, Market.SPOT] is Obstacle.NO_DRIVER_IMAGE
    assert obstacles(provider, "eastus")[name, Market.SPOT] is None
    image = provider.image("eastus", None, Driver.NVIDIA_GRID)
    wish = azure_spec(owner(lease=f"lease_{name}"), zone=zone, instance_type=name, image=image)
    vm = provider.launch("eastus", provider.plan(wish))
    assert provider.ready("eastus", [vm.id])
    unsold = replace(image, purchase_plan=None)
    without_terms = azure_spec(owner(lease=f"lease_b_{name}"), zone=zone, instance_type=name, image=unsold)
    params = provider.plan(without_terms)
    with pytest.raises(InvalidSpec, match="Plan"):
        provider.launch("eastus", params)


def test_a_model_has_one_nominal_memory_size_at_all_clouds() -> None:
    """Several sizes of a model are real ones. Sizes that differ by less than a tenth are the same GPUs."""
    sizes: dict[str, set[int]] = {}
    for kind in (kind for known in (aws, gcp, azure) for kind in known.load().types.values()):
        if kind.gpu.parts == 1:
            sizes.setdefault(kind.gpu.model, set()).add(kind.gpu.memory_gib)
    pairs = {model: list(pairwise(sorted(found))) for model, found in sizes.items()}
    assert {model: near for model, all_of in pairs.items() if (near := [p for p in all_of if p[1] < 1.1 * p[0]])} == {}
    assert (sizes["B200"], sizes["B300"]) == ({180}, {288})


def test_a_spelling_with_a_size_finds_the_gpus_of_that_size() -> None:
    kinds = [kind.gpu for known in (aws, gcp, azure) for kind in known.load().types.values()]
    for name, aliases in ALIASES.items():
        sizes = {gpu.memory_gib for gpu in kinds if gpu.model == name}
        for alias in aliases:
            near = {size for size in sizes if alias.memory_gib and 0.9 < size / alias.memory_gib < 1.1}
            assert not near or alias.memory_gib in near, alias
