"""The operator's tags and copied labels, in the launch parameters of each cloud."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.providers import samples
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure import specs as azure_specs
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.gcp import specs as gcp_specs
from workers.providers.aws import launch as aws_launch
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure import launch as azure_launch
from workers.providers.gcp import launch as gcp_launch
from workers.providers.gcp.catalogue import Machine
from workers.providers.types import LaunchSpec

MACHINE = Machine(machine_type="a2-highgpu-1g", boot_disk="pd-balanced", gpus=1)
NOWHERE = "http://127.0.0.1:9"
NETWORKS = ("203.0.113.0/24",)
Tagged = Iterator[tuple[str, Mapping[str, str]]]


def aws(changes: Any, **wanted: Any) -> Tagged:
    account = AwsAccount(provider="aws", name="main", regions=("us-east-1",), **changes)
    params = aws_launch.plan(samples.spec(**wanted), account, subnet=None)
    specifications = [*params["TagSpecifications"], *params["Firewall"]["Create"]["TagSpecifications"]]
    for one in specifications:
        yield one["ResourceType"], {tag["Key"]: tag["Value"] for tag in one["Tags"]}


def gcp(changes: Any, **wanted: Any) -> Tagged:
    params = gcp_launch.plan(gcp_specs.spec(**wanted), gcp_accounts.account(NOWHERE, None, **changes), MACHINE)
    yield "instance", params["instance"]["labels"]
    for disk in params["instance"]["disks"]:
        yield disk.get("deviceName", "boot"), disk["initializeParams"]["labels"]


def azure(changes: Any, **wanted: Any) -> Tagged:
    account = azure_accounts.account(NOWHERE, **changes)
    spec: LaunchSpec = azure_specs.spec(**wanted)
    params = azure_launch.plan(spec, account, group="/g", subnet=azure_accounts.SUBNETS["eastus"])
    (nic,) = params["vm"]["properties"]["networkProfile"]["networkInterfaceConfigurations"]
    address = nic["properties"]["ipConfigurations"][0]["properties"]["publicIPAddressConfiguration"]
    made = {"vm": params["vm"], "nic": nic, "address": address, "firewall": params["firewall"]["body"]}
    yield from ((kind, one["tags"]) for kind, one in made.items())


CLOUDS: Mapping[str, tuple[Callable[..., Tagged], int]] = {"aws": (aws, 4), "gcp": (gcp, 3), "azure": (azure, 4)}
SETTINGS = {"tags": {"cost-center": "4711"}, "copy_labels": ("project", "unused"), "data_disk_gib": 100}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_resource_has_the_operators_tags_and_the_copied_labels(cloud: str) -> None:
    plan, resources = CLOUDS[cloud]
    found = dict(plan(SETTINGS, labels={"project": "apollo", "team": "vision"}, allowed_cidrs=NETWORKS))
    assert len(found) == resources
    for tags in found.values():
        assert tags["cost-center"] == "4711"
        assert tags["project"] == "apollo"
        assert tags["gpulease-label-project"] == "apollo"
        assert not {"unused", "team"} & tags.keys()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_label_is_copied_unless_the_operator_says_so(cloud: str) -> None:
    plan, _ = CLOUDS[cloud]
    for _, tags in plan({}, labels={"project": "apollo"}, allowed_cidrs=NETWORKS):
        assert "project" not in tags
        assert tags["gpulease-label-project"] == "apollo"


@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=20)
@given(
    labels=st.dictionaries(st.from_regex(r"[a-z0-9_-]{1,63}", fullmatch=True), st.text(max_size=63), max_size=20),
    copied=st.sets(st.integers(0, 19), max_size=5),
)
def test_whatever_is_copied_never_overwrites_gpulease_or_the_operator(
    cloud: str, labels: dict[str, str], copied: set[int]
) -> None:
    plan, _ = CLOUDS[cloud]
    keys = sorted(labels)
    chosen = [keys[n] for n in copied if n < len(keys)]
    own = {f"t{n}": "mine" for n in range(15)}
    account = {"tags": own, "copy_labels": tuple(key for key in chosen if _fits(key))}
    for _, tags in plan(account, labels=labels, allowed_cidrs=NETWORKS):
        assert tags.items() >= samples.owner().as_tags().items()
        assert tags.items() >= own.items()
        assert len(tags) <= (64 if cloud == "gcp" else 50)


def _fits(key: str) -> bool:
    """Whether every cloud takes the key from an operator."""
    reserved = ("gpulease", "azure", "microsoft", "windows")
    return key[0].isalpha() and not key.startswith(reserved) and key != "name" and not key.startswith("t")
