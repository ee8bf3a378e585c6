"""Rights on gpulease's own resources, as IAM's policy simulator tells them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from app.domain.account_checks import AccountCheck, CheckResult
from workers.providers.aws.policy_simulation import check
from workers.providers.aws.rights import CREATE_SPOT_ROLE, OWN_RESOURCES

ASSUMED = "arn:aws:sts::123456789012:assumed-role/gpulease/session"


class Iam:
    """Allows everything but `denied`, or refuses the question with `code`."""

    def __init__(self, *denied: str, code: str | None = None) -> None:
        self._denied, self._code = denied, code
        self.questions: list[dict[str, Any]] = []

    def simulate_principal_policy(self, **question: Any) -> dict[str, Any]:
        self.questions.append(question)
        if self._code is not None:
            raise ClientError({"Error": {"Code": self._code, "Message": "no"}}, "SimulatePrincipalPolicy")
        decisions = {name: "implicitDeny" if name in self._denied else "allowed" for name in question["ActionNames"]}
        return {"EvaluationResults": [{"EvalActionName": name, "EvalDecision": one} for name, one in decisions.items()]}


def ask(iam: Iam, caller: str = ASSUMED, role_arn: str | None = None) -> list[AccountCheck]:
    return check(iam, caller, role_arn, "installation")


def test_a_denied_right_fails_and_names_itself_in_the_fix() -> None:
    checks = ask(Iam("ec2:TerminateInstances"))
    (failed,) = [one for one in checks if one.result is CheckResult.FAILED]
    assert failed.name == "ec2:TerminateInstances"
    assert failed.fix is not None
    assert "grant ec2:TerminateInstances" in failed.fix
    assert {one.name for one in checks} == {*OWN_RESOURCES, CREATE_SPOT_ROLE}


def test_the_question_has_the_tag_that_the_policy_requires() -> None:
    iam = Iam()
    ask(iam)
    contexts = {entry["ContextKeyName"]: entry["ContextKeyValues"] for entry in iam.questions[0]["ContextEntries"]}
    assert contexts["aws:ResourceTag/gpulease-installation"] == ["installation"]


@pytest.mark.parametrize(
    ("caller", "role_arn", "source"),
    [
        (ASSUMED, None, "arn:aws:iam::123456789012:role/gpulease"),
        (ASSUMED, "arn:aws:iam::123456789012:role/team/gpulease", "arn:aws:iam::123456789012:role/team/gpulease"),
        ("arn:aws:iam::123456789012:user/ops", None, "arn:aws:iam::123456789012:user/ops"),
        ("arn:aws-us-gov:sts::123456789012:assumed-role/g/s", None, "arn:aws-us-gov:iam::123456789012:role/g"),
    ],
)
def test_whose_policies_are_simulated(caller: str, role_arn: str | None, source: str) -> None:
    iam = Iam()
    ask(iam, caller, role_arn)
    assert {question["PolicySourceArn"] for question in iam.questions} == {source}


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchEntity"])
def test_without_the_simulator_these_rights_are_not_checked(code: str) -> None:
    assert {one.result for one in ask(Iam(code=code))} == {CheckResult.NOT_CHECKED}
