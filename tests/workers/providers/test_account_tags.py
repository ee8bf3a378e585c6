"""The operator's tags and copied labels, in the launch parameters of each cloud."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import tags
from app.domain.labels import KEY_PATTERN, is_key, is_value
from tests.workers.providers import samples
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure import specs as azure_specs
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.gcp import specs as gcp_specs
from workers.providers.aws import launch as aws_launch
from workers.providers.aws import resource_tags as aws_tags
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure import launch as azure_launch
from workers.providers.azure import resource_tags as azure_tags
from workers.providers.gcp import launch as gcp_launch
from workers.providers.gcp import resource_tags as gcp_tags
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
    for made in found.values():
        assert made["cost-center"] == "4711"
        assert made["project"] == "apollo"
        assert made["gpulease-label-project"] == "apollo"
        assert not {"unused", "team"} & made.keys()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_label_is_copied_unless_the_operator_says_so(cloud: str) -> None:
    plan, _ = CLOUDS[cloud]
    for _, made in plan({}, labels={"project": "apollo"}, allowed_cidrs=NETWORKS):
        assert "project" not in made
        assert made["gpulease-label-project"] == "apollo"


@settings(max_examples=20)
@given(
    labels=st.dictionaries(
        st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?", fullmatch=True), st.text(max_size=63), max_size=20
    ),
    copied=st.sets(st.integers(0, 19), max_size=5),
)
def test_whatever_is_copied_never_overwrites_gpulease_or_the_operator(labels: dict[str, str], copied: set[int]) -> None:
    keys = sorted(labels)
    chosen = [keys[n] for n in copied if n < len(keys)]
    own = {f"t{n}": "mine" for n in range(15)}
    account = {"tags": own, "copy_labels": tuple(key for key in chosen if _fits(key))}
    for cloud, (plan, _) in CLOUDS.items():
        for _, made in plan(account, labels=labels, allowed_cidrs=NETWORKS):
            assert made.items() >= samples.owner().as_tags().items(), cloud
            assert made.items() >= own.items(), cloud
            assert len(made) <= (64 if cloud == "gcp" else 50), cloud


def _fits(key: str) -> bool:
    """Whether every cloud takes the key from an operator."""
    reserved = ("gpulease", "azure", "microsoft", "windows")
    return key[0].isalpha() and not key.startswith(reserved) and key != "name" and not key.startswith("t")


LABEL_KEYS = st.from_regex(rf"\A{KEY_PATTERN}\Z").filter(is_key).filter(lambda key: len(key) <= 100)
LABEL_VALUES = st.text(max_size=30).filter(is_value)


@given(labels=st.dictionaries(LABEL_KEYS, LABEL_VALUES, max_size=20))
def test_labels_come_back_from_each_cloud_as_they_were(labels: dict[str, str]) -> None:
    """Azure takes names that differ only in case for the same, and AWS gets the same tags."""
    labels = {key.lower(): value for key, value in labels.items()}
    for cloud in CLOUDS:
        assert tags.labels(_read_back(cloud, labels)) == labels, cloud


def _read_back(cloud: str, labels: dict[str, str]) -> dict[str, str]:
    """The tags of the VM that a launch with these labels makes."""
    found = dict(CLOUDS[cloud][0]({}, labels=labels, allowed_cidrs=NETWORKS))
    if cloud == "aws":
        return aws_tags.of_vm(aws_tags.to_list(found["instance"]))
    if cloud == "azure":
        return azure_tags.of_vm(found["vm"])
    params = gcp_launch.plan(gcp_specs.spec(labels=labels), gcp_accounts.account(NOWHERE, None), MACHINE)
    return gcp_launch.vm_tags(params["instance"])


def test_what_somebody_wrote_into_a_vms_labels_breaks_nothing() -> None:
    assert aws_tags.of_vm([{"Key": "gpulease-label-a", "Value": "=D800==0==FFFFFF==41="}]) == {
        "gpulease-label-a": "=D800==0==FFFFFF=A"
    }
    for stored in ("", "[]", "null", '"x"', "{", '{"a": 1}', '{"a": null}', '{"a/b/c": "x"}', "[" * 100_000):
        found = tags.labels(gcp_tags.of_vm({"gpulease-label-team": "vision"}, stored))
        assert found in ({}, {"team": "vision"}), stored


def test_a_label_key_that_is_too_long_for_a_tag_gets_none() -> None:
    labels = {f"{'a' * 60}.{'b' * 60}.example.org/{'c' * 60}": "x", "team": "vision"}
    for cloud in ("aws", "azure"):
        assert tags.labels(_read_back(cloud, labels)) == {"team": "vision"}
    assert tags.labels(_read_back("gcp", labels)) == labels
