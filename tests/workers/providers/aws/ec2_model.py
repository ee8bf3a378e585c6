"""What botocore and moto know of EC2. Each takes a second and 100 MB to read, so that it is read once and by tests alone."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.validate import ParamValidator


@cache
def ec2_model() -> Any:
    """Botocore's model of the service."""
    return botocore.session.Session().get_service_model("ec2")


def must_be_valid(operation: str, arguments: Mapping[str, Any]) -> None:
    """Fails with what botocore would refuse of these arguments."""
    report = ParamValidator().validate(arguments, ec2_model().operation_model(operation).input_shape)
    assert not report.has_errors(), report.generate_report()


@cache
def described_types() -> Mapping[str, Any]:
    """Moto's copy of what DescribeInstanceTypes returns, by the name of the type."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES  # noqa: PLC0415 - see above

    found: Mapping[str, Any] = INSTANCE_TYPES
    return found
