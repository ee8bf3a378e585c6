"""Rights on gpulease's own resources, by IAM's policy simulator. It evaluates policies and calls nothing.

The policy permits these calls only for resources with the installation's tag. There is none before the first lease, and
EC2 answers a call for another resource with a refusal, so `DryRun` would not show the right.
Source: IAM API reference, "SimulatePrincipalPolicy".
"""

import re
from typing import Any

from app.domain import tags
from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.aws.calls import part
from workers.providers.aws.dry_runs import grant
from workers.providers.aws.errors import translated
from workers.providers.aws.rights import CREATE_SPOT_ROLE, OWN_RESOURCES, SIMULATE
from workers.providers.common.checks import failed, not_checked, passed, words_of
from workers.providers.errors import ProviderError

_ASSUMED = re.compile(r"arn:([\w-]+):sts::(\d+):assumed-role/([^/]+)/.+")
_SPOT = "spot.amazonaws.com"
_ALLOWED = "allowed"


def check(iam: Any, caller: str, role_arn: str | None, installation: str) -> list[AccountCheck]:
    """`caller`: the ARN that STS reports. `role_arn`: the account's setting, which has the role's whole path."""
    source = role_arn or _identity_of(caller)
    owned = {f"aws:ResourceTag/{tags.INSTALLATION}": installation, f"aws:RequestTag/{tags.INSTALLATION}": installation}
    partition, account = source.split(":")[1], source.split(":")[4]
    spot_role = f"arn:{partition}:iam::{account}:role/aws-service-role/{_SPOT}/AWSServiceRoleForEC2Spot"
    return [
        *_simulate(iam, source, OWN_RESOURCES, "*", owned),
        *_simulate(iam, source, (CREATE_SPOT_ROLE,), spot_role, {"iam:AWSServiceName": _SPOT}),
    ]


def _identity_of(caller: str) -> str:
    """The ARN of the user or role. STS does not report the path of an assumed role."""
    match = _ASSUMED.fullmatch(caller)
    return f"arn:{match[1]}:iam::{match[2]}:role/{match[3]}" if match else caller


def _simulate(
    iam: Any, source: str, actions: tuple[str, ...], resource: str, context: dict[str, str]
) -> list[AccountCheck]:
    entries = [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for key, value in context.items()
    ]
    try:
        with translated():
            answer = iam.simulate_principal_policy(
                PolicySourceArn=source, ActionNames=list(actions), ResourceArns=[resource], ContextEntries=entries
            )
        decisions = {result["EvalActionName"]: result["EvalDecision"] for result in part(answer, "EvaluationResults")}
    except ProviderError as error:
        reason = f"IAM's policy simulator: {words_of(error)}"
        fix = f"grant {SIMULATE}, which only reads, and set `role_arn` if the role has a path; then check again"
        return [not_checked(CheckSubject.RIGHT, action, reason, fix) for action in actions]
    return [_decided(action, decisions.get(action, "missing")) for action in actions]


def _decided(action: str, decision: str) -> AccountCheck:
    if decision == _ALLOWED:
        return passed(CheckSubject.RIGHT, action)
    return failed(CheckSubject.RIGHT, action, f"IAM's policy simulator: {decision}", grant(action))
