"""The account's own limits on GPU VMs, in vCPUs per family and market.

Source of the codes: EC2 user guide, "Amazon EC2 instance type quotas".
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from app.domain.offerings import Market
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
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
}


def code_of(instance_type: str, market: Market) -> str | None:
    """The code of the quota that a type counts against in a market. None: AWS documents no spot quota for P6."""
    if instance_type.startswith("g"):
        return "L-DB2E81BA" if market is Market.ON_DEMAND else "L-3819A6DF"
    if market is Market.ON_DEMAND:
        return "L-417A185B"
    if instance_type.startswith("p6"):
        return None
    return "L-C4BD4855" if instance_type.startswith("p5") else "L-7212CCBC"


def read(client: "ServiceQuotasClient", region: str) -> list[ServiceQuota]:
    """The limits that AWS returns. A limit that was never changed for this account is AWS's default."""
    limits = answered(CODES, lambda code: _value(client, code))
    return [
        ServiceQuota(region=region, code=code, name=CODES[code], limit=value, unit="vCPU")
        for code, value in limits.items()
        if value is not None
    ]


def _value(client: "ServiceQuotasClient", code: str) -> Decimal | None:
    try:
        with translated():
            return Decimal(str(part(client.get_service_quota(ServiceCode="ec2", QuotaCode=code), "Quota")["Value"]))
    except NotFound:
        return _default(client, code)


def _default(client: "ServiceQuotasClient", code: str) -> Decimal | None:
    try:
        with translated():
            answer = client.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode=code)
            return Decimal(str(part(answer, "Quota")["Value"]))
    except NotFound:
        return None
