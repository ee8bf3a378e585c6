"""The table of checks fits a terminal and shows each failure with its fix."""

import json
from dataclasses import replace

from app.domain.account_checks import AccountCheck, CheckResult, CheckSubject
from workers.account_checks.report import WIDTH, as_json, summary, table
from workers.providers.common.checks import TRY_AGAIN, refused
from workers.providers.errors import OutcomeUnknown

RIGHT = AccountCheck(subject=CheckSubject.RIGHT, name="ec2:RunInstances", result=CheckResult.PASSED)
SUBNET = AccountCheck(
    subject=CheckSubject.SUBNET,
    name="/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/networks/subnets/gpus",
    result=CheckResult.FAILED,
    detail="no free address",
    fix="free addresses in the subnet, or list a larger subnet of this zone in `subnet_ids`, then check again",
    region="eastus",
)
QUOTA = AccountCheck(
    subject=CheckSubject.QUOTA, name="cores", result=CheckResult.NOT_CHECKED, detail="not reported", region="eastus"
)


def test_no_line_is_longer_than_a_terminal_is_wide() -> None:
    lines = list(table("research", [RIGHT, SUBNET, QUOTA]))
    assert max(map(len, lines)) <= WIDTH


def test_rows_stand_under_the_account_and_under_each_region() -> None:
    assert list(table("research", [RIGHT, QUOTA])) == [
        "",
        "research, whole account",
        "  ok   right       ec2:RunInstances",
        "",
        "research, eastus",
        "  ?    quota       cores  not reported",
    ]


def test_rows_that_are_equal_in_several_regions_stand_once() -> None:
    def launch(region: str, result: CheckResult = CheckResult.PASSED) -> AccountCheck:
        detail = f"g5.xlarge in {region}a"
        return replace(
            RIGHT, result=result, detail=detail, fix="ask" if result is CheckResult.FAILED else None, region=region
        )

    regions = ("us-east-1", "eu-west-1", "eu-north-1")
    quota = replace(QUOTA, region="eu-west-1")
    checks = [RIGHT, launch(regions[0]), launch(regions[1]), quota, launch(regions[2], CheckResult.FAILED)]
    assert list(table("research", checks)) == [
        "",
        "research, whole account",
        "  ok   right       ec2:RunInstances",
        "",
        "research, us-east-1, eu-west-1",
        "  ok   right       ec2:RunInstances  g5.xlarge in <region>a",
        "",
        "research, eu-west-1",
        "  ?    quota       cores  not reported",
        "",
        "research, eu-north-1",
        "  FAIL right       ec2:RunInstances  g5.xlarge in eu-north-1a",
        "       Fix: ask",
    ]


def test_many_regions_fit_a_terminal() -> None:
    checks = [
        replace(RIGHT, region=f"{place}-{number}") for place in ("ap-southeast", "us-east") for number in range(9)
    ]
    lines = list(table("research", checks))
    assert max(map(len, lines)) <= WIDTH
    assert sum("ec2:RunInstances" in line for line in lines) == 1


def test_a_server_error_is_no_missing_right() -> None:
    error = OutcomeUnknown("500: Internal Server Error", code="500")
    check = refused(CheckSubject.RIGHT, "ec2:DescribeImages", error, "grant ec2:DescribeImages")
    assert (check.result, check.fix) == (CheckResult.FAILED, TRY_AGAIN)


def test_a_failure_is_followed_by_its_fix() -> None:
    text = "\n".join(table("research", [SUBNET]))
    assert "  FAIL subnet" in text
    assert "       Fix: free addresses in the subnet, or list a larger subnet of this zone" in text


def test_the_summary_counts_by_result() -> None:
    assert summary([RIGHT, SUBNET, QUOTA]) == "1 passed, 1 failed, 1 not checked"


def test_json_tells_whether_all_passed_and_can_be_read_back() -> None:
    document = json.loads(as_json({"research": [RIGHT, QUOTA], "other": [SUBNET]}))
    assert document["passed"] is False
    assert [account["name"] for account in document["accounts"]] == ["research", "other"]
    assert AccountCheck.from_json(document["accounts"][1]["checks"][0]) == SUBNET
    assert json.loads(as_json({"research": [RIGHT, QUOTA]}))["passed"] is True
