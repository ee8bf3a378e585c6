"""STS: who am I, and becoming somebody else."""

from __future__ import annotations

import re

from cloudsim.ec2 import existing
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError

_ROLE = re.compile(r"arn:aws:iam::(\d{12}):role/([\w+=,.@/-]+)")
_DEFAULT_SESSION_SECONDS = 3_600


def get_caller_identity(call: Call) -> Result:
    """Account and ARN behind the access key."""
    return {"UserId": call.access_key, "Account": call.account, "Arn": call.credentials.arn(call.access_key)}


def assume_role(call: Call) -> Result:
    """New credentials of the role's account. Raises AwsError for a malformed ARN or a wrong external id."""
    match = _ROLE.fullmatch(call.params["RoleArn"])
    if match is None:
        raise AwsError("ValidationError", f"{call.params['RoleArn']} is invalid")
    account, role = match.groups()
    if role in existing.EXTERNAL_IDS and call.params.get("ExternalId") != existing.EXTERNAL_IDS[role]:
        raise AwsError(
            "AccessDenied",
            f"User: {call.credentials.arn(call.access_key)} is not authorized to perform: sts:AssumeRole on resource: "
            f"{call.params['RoleArn']}",
        )
    key = f"ASIA{account}{call.world.hex(4).upper()}"
    arn = f"arn:aws:sts::{account}:assumed-role/{role.rpartition('/')[2]}/{call.params['RoleSessionName']}"
    call.credentials.sessions[key] = arn
    call.world.touch_facts()
    return {
        "Credentials": {
            "AccessKeyId": key,
            "SecretAccessKey": call.world.hex(40),
            "SessionToken": call.world.hex(64),
            "Expiration": call.now + call.params.get("DurationSeconds", _DEFAULT_SESSION_SECONDS),
        },
        "AssumedRoleUser": {"AssumedRoleId": f"AROA{account}:{call.params['RoleSessionName']}", "Arn": arn},
        "PackedPolicySize": 0,
    }
