"""Rights at EC2 by DryRun: no launch is sent to a server that would execute it."""

from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from app.domain.account_checks import CheckResult
from app.domain.offerings import Gpu, InstanceType, Interconnect, Market
from tests.workers.providers.samples import IMAGE
from workers.providers.aws import launch
from workers.providers.aws.dry_runs import check_launch, check_reads
from workers.providers.aws.settings import AwsAccount
from workers.providers.types import LaunchSpec, Params, ProviderOffering

GPU = Gpu(model="T4", count=1, memory_gib=16, interconnect=Interconnect.PCIE)
OFFERED = [
    ProviderOffering(
        type=InstanceType(name=name, gpu=GPU, vcpus=vcpus, memory_gib=Decimal(16)),
        region="us-east-1",
        zone="us-east-1a",
        market=Market.ON_DEMAND,
        price_per_hour=None,
        price_as_of=None,
        price_source=None,
    )
    for name, vcpus in (("g4dn.2xlarge", 8), ("g4dn.xlarge", 4))
]


class Ec2:
    """Answers each call with the code of its operation, or as if it had executed the call."""

    def __init__(self, default: str | None, **codes: str) -> None:
        self._default, self._codes = default, codes
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> dict[str, Any]:
            self.calls.append((name, arguments))
            code = self._codes.get(name, self._default)
            if code is not None:
                operation = "".join(part.title() for part in name.split("_"))
                raise ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": STATUS}, operation)
            return {}

        return call


ACCOUNT = AwsAccount(provider="aws", name="main", regions=["us-east-1"])
STATUS: Any = {"HTTPStatusCode": 412}


def plan(spec: LaunchSpec) -> Params:
    return launch.plan(spec, ACCOUNT, subnet=None)


def results(ec2: Any) -> dict[str, CheckResult]:
    return {check.name: check.result for check in check_launch(ec2, plan, IMAGE, OFFERED, "installation")}


RUN = "ec2:RunInstances, on demand"


def test_the_smallest_type_is_asked_for_with_the_tag_of_the_installation() -> None:
    ec2 = Ec2("DryRunOperation")
    rights = (RUN, "ec2:CreateSecurityGroup", "ec2:CreatePlacementGroup", "ec2:CreateVolume")
    assert results(ec2) == dict.fromkeys(rights, CheckResult.PASSED)
    ((_, run),) = [call for call in ec2.calls if call[0] == "run_instances"]
    assert (run["InstanceType"], run["DryRun"]) == ("g4dn.xlarge", True)
    assert {"Key": "gpulease-installation", "Value": "installation"} in run["TagSpecifications"][0]["Tags"]


def test_no_launch_is_sent_to_a_server_that_ignores_dry_run() -> None:
    ec2 = Ec2(None)
    assert set(results(ec2).values()) == {CheckResult.NOT_CHECKED}
    assert {name for name, _ in ec2.calls} == {"describe_regions"}


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("UnauthorizedOperation", CheckResult.FAILED),
        ("VcpuLimitExceeded", CheckResult.PASSED),
        ("InsufficientInstanceCapacity", CheckResult.PASSED),
        ("InvalidSubnetID.NotFound", CheckResult.FAILED),
        ("RequestLimitExceeded", CheckResult.FAILED),
    ],
)
def test_what_a_refused_dry_run_shows_of_the_right_to_launch(code: str, result: CheckResult) -> None:
    assert results(Ec2("DryRunOperation", run_instances=code))[RUN] == result


def test_without_an_image_no_launch_can_be_asked_for() -> None:
    checks = check_launch(Ec2("DryRunOperation"), plan, None, OFFERED, "installation")  # pyrefly: ignore[bad-argument-type]
    assert {check.result for check in checks} == {CheckResult.NOT_CHECKED}


def test_a_throttled_read_asks_for_another_try_instead_of_a_right() -> None:
    checks = check_reads(Ec2("DryRunOperation", describe_volumes="RequestLimitExceeded"))  # pyrefly: ignore[bad-argument-type]
    (failed,) = [check for check in checks if check.result is CheckResult.FAILED]
    assert (failed.name, failed.fix) == ("ec2:DescribeVolumes", "run the check again later")
