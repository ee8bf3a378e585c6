"""The rights that the documentation asks for are those that the adapter uses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.domain.offerings import Market
from cloudsim.testing import running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.contract import volumes
from tests.workers.providers.samples import GROUP as MEMBER
from tests.workers.providers.samples import INSTALLATION, owner, spec, token_of
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.leftovers import ADDRESS, GROUP, INTERFACE, PLACEMENT_GROUP, VOLUME
from workers.providers.aws.rights import READS_OF_RESERVATIONS, RIGHTS, SIMULATE
from workers.providers.aws.settings import AwsAccount
from workers.providers.types import Leftover, Slot

PAGE = Path(__file__).parents[4] / "docs" / "providers" / "aws.md"
REGION = "us-east-1"
NOT_SEEN_HERE = {
    "CreateServiceLinkedRole": "EC2 itself makes the role at the first spot launch of an account",
    "DescribeSubnets": "only where an account lists subnets",
    "GetAWSDefaultServiceQuota": "only where a quota was never changed",
}
GONE = {
    VOLUME: "vol-0123456789abcdef0",
    INTERFACE: "eni-0123456789abcdef0",
    ADDRESS: "eipalloc-0123456789abcdef0",
    GROUP: "sg-0123456789abcdef0",
    PLACEMENT_GROUP: "gpulease-group_gone",
}


@pytest.fixture
def policy() -> Any:
    return blocks()[0]


def blocks() -> list[Any]:
    """The least policy, and the statements that single settings need."""
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)]


def test_settings_that_need_more_rights_say_which() -> None:
    _, statements = blocks()
    actions = {one["Sid"]: one["Action"] for one in statements}
    assert actions["WithInstanceProfile"] == "iam:PassRole"
    assert actions["WithPlacementGroup"] == "ec2:RunInstances"
    assert {"kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"} <= set(actions["WithKmsKey"])
    assert actions["LaunchInReservation"] == "ec2:RunInstances"
    assert (actions.pop("WithReservations"),) == READS_OF_RESERVATIONS
    assert all("*" not in one["Resource"].rpartition(":")[2] for one in statements if one["Sid"] in actions)


def ask_everything(aws: AwsProvider) -> None:
    """Each method once, a spot VM and its end included."""
    image = aws.image(REGION)
    vm = aws.launch(REGION, aws.plan(spec(image=image, market=Market.SPOT, allowed_cidrs=("203.0.113.0/24",))))
    aws.launch(REGION, aws.plan(spec(owner("lease_b"), image=image, instance_type="g5.8xlarge", group=MEMBER)))
    batch = aws.plan_batch(
        spec(image=image), "batch_a", "b" * 64, [Slot(index=0, token=token_of(owner()), owner=owner())]
    )
    member = aws.launch_batch(REGION, batch).vms[0]
    aws.find_batch(REGION, batch)
    aws.label_slots(REGION, {member.id: owner()})
    aws.identity()
    aws.offered(REGION)
    aws.prices(REGION)
    aws.service_quotas(REGION)
    aws.find(REGION, token_of(owner()), owner())
    aws.get(REGION, [vm.id])
    list(aws.list(frozenset({REGION}), INSTALLATION))
    list(aws.list_everywhere(INSTALLATION))
    aws.ready(REGION, [vm.id])
    aws.interruptions(frozenset({REGION}), INSTALLATION)
    aws.set_deadline(REGION, [vm.id], owner().deadline_at)
    aws.console_output(REGION, vm.id)
    volumes.use_each_call(aws, REGION, vm)
    aws.reboot(REGION, [vm.id])
    aws.terminate(REGION, [vm.id])
    aws.leftovers(REGION, INSTALLATION, None)
    for kind, one in GONE.items():
        aws.remove_leftover(Leftover(kind=kind, id=one, region=REGION, tags={}, in_use=False))


@pytest.fixture
def granted(policy: Any) -> set[str]:
    return {
        action
        for statement in policy["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_the_documented_policy_grants_the_rights_of_the_adapter_and_of_the_check(granted: set[str]) -> None:
    assert granted == RIGHTS | {SIMULATE}


def test_the_rights_allow_what_is_called_and_nothing_else() -> None:
    needed = {right.split(":")[1] for right in RIGHTS}
    with running() as sim:
        account = AwsAccount(provider="aws", name="sim", regions=(REGION,), endpoint_url=sim.url)
        ask_everything(AwsProvider(account, read_settings(call_timeout=60.0)))
        called = set(sim.calls())
    assert called <= needed
    assert needed - called == set(NOT_SEEN_HERE)
