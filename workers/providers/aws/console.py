"""The serial console of a VM as EC2 keeps it: the last 64 KiB."""

from typing import TYPE_CHECKING

from workers.providers.aws.errors import translated
from workers.providers.common.console import clean

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


def read(ec2: "EC2Client", vm_id: str) -> str:
    """Clean text, "" when there is none (yet). Raises ProviderError. boto3 undoes the base64 itself."""
    with translated():
        answer = ec2.get_console_output(InstanceId=vm_id, Latest=True)
    return clean(answer.get("Output", ""))
