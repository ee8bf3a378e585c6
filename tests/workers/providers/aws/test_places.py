"""Images, subnets and offers: what is asked of AWS, and what becomes of the answers."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import boto3
import pytest

from app.domain.account_checks import CheckResult
from app.domain.offerings import Market
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.samples import spec
from workers.providers import errors, types
from workers.providers.aws import catalogue, images, offerings, place_checks
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount

REGION = "us-east-1"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Pages:
    """A paginator with prepared pages."""

    def __init__(self, pages: Sequence[Mapping[str, Any]]) -> None:
        self._pages = pages

    def paginate(self, **_: Any) -> Sequence[Mapping[str, Any]]:
        return self._pages


class Ec2:
    """An EC2 client with prepared answers; `asked` keeps the arguments of DescribeImages."""

    def __init__(self, pages: Sequence[Mapping[str, Any]] = (), images: Sequence[Mapping[str, Any]] = ()) -> None:
        self._pages = pages
        self._images = images
        self.asked: list[Mapping[str, Any]] = []

    def get_paginator(self, _: str) -> Pages:
        return Pages(self._pages)

    def describe_images(self, **arguments: Any) -> Mapping[str, Any]:
        self.asked.append(arguments)
        wanted = arguments.get("ImageIds")
        names = [value for one in arguments.get("Filters", []) if one["Name"] == "name" for value in one["Values"]]
        found = [
            image
            for image in self._images
            if (image["ImageId"] in wanted if wanted else any(image["Name"].startswith(name[:-1]) for name in names))
        ]
        return {"Images": found}


class Ssm:
    """Parameters by name; NotFound for the others."""

    def __init__(self, **values: str) -> None:
        self._values = values
        self.asked: list[str] = []

    def get_parameter(self, Name: str) -> Mapping[str, Any]:  # noqa: N803
        self.asked.append(Name)
        if Name not in self._values:
            raise errors.NotFound("no such parameter", code="ParameterNotFound")
        return {"Parameter": {"Value": self._values[Name]}}


def image(n: int, name: str, created: str) -> dict[str, Any]:
    disks = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 60 + n}}, {"DeviceName": "/dev/sdb", "VirtualName": "x"}]
    facts = {"ImageId": f"ami-{n:017x}", "Name": name, "CreationDate": created}
    return facts | {"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": disks}


UBUNTU_24 = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) "
UBUNTU_22 = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) "
IMAGES = [
    image(1, UBUNTU_22 + "20261101", "2026-11-01T00:00:00.000Z"),
    image(2, UBUNTU_24 + "20260901", "2026-09-01T00:00:00.000Z"),
    image(3, UBUNTU_24 + "20261001", "2026-10-01T00:00:00.000Z"),
]


def resolve(ec2: Ec2, ssm: Ssm, pin: str | None = None) -> types.Image:
    return images.resolve(cast("Any", ec2), cast("Any", ssm), pin)


def test_the_public_parameter_names_the_image() -> None:
    ec2, ssm = Ec2(images=IMAGES), Ssm(**{images.PARAMETER: IMAGES[1]["ImageId"]})
    found = resolve(ec2, ssm)
    assert (found.id, found.name) == (IMAGES[1]["ImageId"], IMAGES[1]["Name"])
    assert (found.root_device, found.disk_gib) == ("/dev/sda1", 62)


def test_without_the_parameter_the_newest_of_amazons_images_is_taken() -> None:
    ec2 = Ec2(images=IMAGES)
    assert resolve(ec2, Ssm()).id == IMAGES[2]["ImageId"]
    assert ec2.asked[0]["Owners"] == ["amazon"]


def test_the_older_release_is_taken_where_the_newer_is_missing() -> None:
    assert resolve(Ec2(images=IMAGES[:1]), Ssm()).id == IMAGES[0]["ImageId"]


def test_an_image_id_may_be_pinned_and_asks_no_parameter() -> None:
    ssm = Ssm()
    assert resolve(Ec2(images=IMAGES), ssm, IMAGES[1]["ImageId"]).id == IMAGES[1]["ImageId"]
    assert not ssm.asked


def test_a_parameter_may_be_pinned() -> None:
    ssm = Ssm(**{"/our/image": IMAGES[1]["ImageId"]})
    assert resolve(Ec2(images=IMAGES), ssm, "/our/image").id == IMAGES[1]["ImageId"]


@pytest.mark.parametrize("pin", ["/our/image", "ami-00000000000000009", None])
def test_no_image_is_a_bad_request_that_says_where_to_look(pin: str | None) -> None:
    with pytest.raises(errors.InvalidSpec, match=r"`image`|does not exist here"):
        resolve(Ec2(), Ssm(), pin)


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running() as sim:
        yield sim


@pytest.fixture
def subnets(sim: Control) -> Mapping[str, str]:
    """Zone -> the default subnet there."""
    wanted: Any = [{"Name": "default-for-az", "Values": ["true"]}]
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=sim.url)
    return {one["AvailabilityZone"]: one["SubnetId"] for one in ec2.describe_subnets(Filters=wanted)["Subnets"]}


def connect(sim: Control, *subnet_ids: str) -> AwsProvider:
    account = AwsAccount(
        provider="aws", name="sim", regions=(REGION, "eu-west-1"), endpoint_url=sim.url, subnet_ids=subnet_ids
    )
    return AwsProvider(account, read_settings(call_timeout=60.0))


def test_only_zones_with_a_listed_subnet_are_offered(sim: Control, subnets: Mapping[str, str]) -> None:
    one, two = f"{REGION}a", f"{REGION}b"
    assert {o.zone for o in connect(sim, subnets[one]).offered(REGION)} == {one}
    assert {o.zone for o in connect(sim, subnets[one], subnets[two]).offered(REGION)} == {one, two}
    assert len({o.zone for o in connect(sim).offered(REGION)}) > 2


def test_a_launch_uses_the_listed_subnet_of_its_zone(sim: Control, subnets: Mapping[str, str]) -> None:
    aws = connect(sim, *subnets.values())
    params = aws.plan(spec(zone=f"{REGION}b"))
    assert params["NetworkInterfaces"][0]["SubnetId"] == subnets[f"{REGION}b"]
    vm = aws.launch(REGION, aws.plan(spec(zone=f"{REGION}b", image=aws.image(REGION))))
    assert vm.zone == f"{REGION}b"


def test_a_zone_without_a_listed_subnet_is_not_offered_to_a_plan(sim: Control, subnets: Mapping[str, str]) -> None:
    with pytest.raises(errors.NotOffered, match="subnet_ids"):
        connect(sim, subnets[f"{REGION}a"]).plan(spec(zone=f"{REGION}b"))


def test_after_the_image_is_known_a_plan_makes_no_call(sim: Control, subnets: Mapping[str, str]) -> None:
    sim.reset()
    aws = connect(sim, *subnets.values())
    aws.image(REGION)
    before = sim.calls()
    aws.plan(spec())
    assert sim.calls() == before
    assert before["DescribeSubnets"] == 1


def test_a_plan_without_listed_subnets_makes_no_call(sim: Control) -> None:
    sim.reset()
    connect(sim).plan(spec())
    assert not any(sim.calls().values())


def spot_price(zone: str, price: str, hours_ago: int) -> dict[str, Any]:
    when = NOW - timedelta(hours=hours_ago)
    return {"AvailabilityZone": zone, "InstanceType": "g5.xlarge", "SpotPrice": price, "Timestamp": when}


def test_the_newest_spot_price_of_each_zone_counts() -> None:
    pages = [
        {"SpotPriceHistory": [spot_price("us-east-1a", "0.40", 5), spot_price("us-east-1b", "0.90", 1)]},
        {"SpotPriceHistory": [spot_price("us-east-1a", "0.45", 2), spot_price("us-east-1a", "0.30", 9)]},
    ]
    prices = offerings.spot_prices(cast("Any", Ec2(pages)), ["g5.xlarge"], NOW)
    found = {zone: (str(price.per_hour), price.as_of) for (zone, _), price in prices.items()}
    assert found == {
        "us-east-1a": ("0.45", NOW - timedelta(hours=2)),
        "us-east-1b": ("0.90", NOW - timedelta(hours=1)),
    }


def test_a_price_that_nobody_knows_is_left_open_not_invented(sim: Control) -> None:
    offers = connect(sim).offered("eu-west-1")
    unpriced = [o for o in offers if o.market is Market.ON_DEMAND and o.price_per_hour is None]
    assert all(o.price_source is None and o.price_as_of is None for o in unpriced)


def test_the_spot_quota_of_p6_is_not_checked_and_no_other_one_stands_for_it() -> None:
    kind = catalogue.load().types["p6-b200.48xlarge"]
    sold = types.ProviderOffering(
        type=kind,
        region=REGION,
        zone="us-east-1a",
        market=Market.SPOT,
        price_per_hour=None,
        price_as_of=None,
        price_source=None,
    )
    limits = [types.ServiceQuota(region=REGION, code="L-7212CCBC", name="P4", limit=Decimal(0), unit="vCPU")]
    (check,) = place_checks.check_quotas(limits, [sold], REGION)
    assert (check.name, check.result) == ("P6 spot", CheckResult.NOT_CHECKED)


class SecurityGroups:
    """EC2 with these rules about groups, by group."""

    def __init__(self, admitted: Mapping[str, str]) -> None:
        self._admitted = admitted

    def describe_security_groups(self, **_: Any) -> Any:
        return {
            "SecurityGroups": [
                {
                    "GroupId": group,
                    "VpcId": "vpc-1",
                    "IpPermissions": [{"IpProtocol": "tcp", "UserIdGroupPairs": [{"GroupId": other}]}],
                }
                for group, other in self._admitted.items()
            ]
        }


@pytest.mark.parametrize(
    ("admitted", "result"),
    [
        ({"sg-1": "sg-bastion", "sg-2": "sg-bastion"}, ["passed", "passed"]),
        ({"sg-1": "sg-1", "sg-2": "sg-bastion"}, ["failed", "passed"]),
        ({"sg-1": "sg-bastion", "sg-2": "sg-1"}, ["passed", "failed"]),
    ],
)
def test_security_groups_that_let_in_vms_of_the_account_fail_the_check(
    admitted: Mapping[str, str], result: Sequence[str]
) -> None:
    ec2: Any = SecurityGroups(admitted)
    checks = list(place_checks.check_security_groups(ec2, "us-east-1", ["sg-1", "sg-2"]))
    assert [one.result for one in checks] == result
    assert all("all tenants" in one.detail and one.fix for one in checks if one.result == "failed")
