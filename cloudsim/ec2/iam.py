"""IAM: the policy simulator, which says what the caller may do. Everything is allowed that is not denied."""

from __future__ import annotations

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER


def simulate_principal_policy(call: Call) -> Result:
    """One decision per action. Tags and resources do not matter here."""
    denied = call.world.restrictions.denied
    return {
        "EvaluationResults": [
            {
                "EvalActionName": action,
                "EvalResourceName": "*",
                "EvalDecision": "implicitDeny" if (PROVIDER, action) in denied else "allowed",
            }
            for action in call.params["ActionNames"]
        ],
        "IsTruncated": False,
    }
