"""The account's own limits on GPU VMs, counted in vCPUs per family and market.

Codes: EC2 user guide, "Amazon EC2 instance type quotas".
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.common.batch import answered
from workers.providers.errors import NotFound
from workers.providers.types import ServiceQuota

if TYPE_CHECKING:
    from mypy_boto3_service_quotas import ServiceQuotasClient

CODES: Mapping[str, str] = {
    "L-417A185B": "Running On-Demand P instances",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-7212CCBC": "All P Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
}


def read(client: "ServiceQuotasClient", region: str) -> list[ServiceQuota]:
    """Those that AWS tells; one that was never changed for this account is AWS's default."""
    found = answered(CODES, lambda code: _value(client, code))
    return [
        ServiceQuota(region=region, code=code, name=CODES[code], limit=value, unit="vCPU")
        for code, value in found.items()
        if value is not None
    ]


def _value(client: "ServiceQuotasClient", code: str) -> Decimal | None:
    try:
        with translated():
            answer = client.get_service_quota(ServiceCode="ec2", QuotaCode=code)
    except NotFound:
        return _default(client, code)
    return Decimal(str(part(answer, "Quota")["Value"]))


def _default(client: "ServiceQuotasClient", code: str) -> Decimal | None:
    try:
        with translated():
            answer = client.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode=code)
    except NotFound:
        return None
    return Decimal(str(part(answer, "Quota")["Value"]))
