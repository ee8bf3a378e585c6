"""Service Quotas: the vCPU quotas of EC2's GPU families."""

from __future__ import annotations

from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER, QUOTA_NAMES
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.paging import page

_PAGE = 100


def _applied(call: Call, code: str) -> int:
    key = (PROVIDER, call.account, call.region, code)
    return call.world.quotas.limit(key, call.world.settings.default_quota_vcpus)


def _quota(call: Call, code: str, value: int) -> dict[str, Any]:
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{call.region}:{call.account}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": QUOTA_NAMES[code],
        "Value": float(value),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _check_service(call: Call) -> None:
    if call.params.get("ServiceCode") != "ec2":
        raise AwsError("NoSuchResourceException", "The request failed because the specified service does not exist.")


def list_service_quotas(call: Call) -> Result:
    """One page of quotas by code."""
    _check_service(call)
    codes, token = page(QUOTA_NAMES, str, call, most=_PAGE)
    result: Result = {"Quotas": [_quota(call, code, _applied(call, code)) for code in codes]}
    return {**result, "NextToken": token} if token else result


def _known_code(call: Call) -> str:
    _check_service(call)
    code = call.params.get("QuotaCode", "")
    if code not in QUOTA_NAMES:
        raise AwsError("NoSuchResourceException", "The request failed because the specified quota does not exist.")
    return str(code)


def get_service_quota(call: Call) -> Result:
    """One quota as it applies to the account. Raises AwsError NoSuchResourceException."""
    code = _known_code(call)
    return {"Quota": _quota(call, code, _applied(call, code))}


def get_default_service_quota(call: Call) -> Result:
    """One quota as it is for a new account. Raises AwsError NoSuchResourceException."""
    return {"Quota": _quota(call, _known_code(call), call.world.settings.default_quota_vcpus)}
