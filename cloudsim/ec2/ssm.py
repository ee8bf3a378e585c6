"""SSM: the public parameters that name driver-ready images."""

from __future__ import annotations

from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.images import available_parameters

_CHANGED_AT = 1_763_000_000.0


def _parameter(call: Call, name: str) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "String",
        "Value": available_parameters(call.world, call.region)[name],
        "Version": 1,
        "LastModifiedDate": _CHANGED_AT,
        "ARN": f"arn:aws:ssm:{call.region}::parameter{name}",
        "DataType": "text",
    }


def get_parameter(call: Call) -> Result:
    """One parameter. Raises AwsError ParameterNotFound."""
    name = call.params.get("Name", "")
    if name not in available_parameters(call.world, call.region):
        raise AwsError("ParameterNotFound", f"Parameter {name} not found.")
    return {"Parameter": _parameter(call, name)}


def get_parameters(call: Call) -> Result:
    """Up to ten parameters; unknown names are listed as invalid."""
    names = call.params.get("Names", [])
    known = available_parameters(call.world, call.region)
    return {
        "Parameters": [_parameter(call, name) for name in names if name in known],
        "InvalidParameters": [name for name in names if name not in known],
    }
